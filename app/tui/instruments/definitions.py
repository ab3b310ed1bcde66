"""What each figure on the screen means: what F1 shows, in the words of the code that counts it."""

DEFINITIONS = (
    ("tok/s", "committed tokens of the last second of decode"),
    ("mean", "(tokens - 1) / (time of the last token - time of the first); the prompt apart"),
    ("peak", "the highest tok/s over a whole second of this answer, and never below the mean"),
    ("the course", "tokens a second over the last 3 to 60 s, each round's spread over its time"),
    ("TTFT", "from the request to the first token out of the engine"),
    ("read", "tokens of the prompt that were read a second, without those held from before"),
    ("rounds", "rounds a second in the last second of decode, and their mean milliseconds"),
    ("accepted 2.4/7", ("draft tokens the model agreed with, a round / the most it tested in the "
     "rounds shown; each column is a round")),
    ("tokens a round", ("committed tokens of each round, drafts and the model's own; drafting "
     "changes speed, never text")),
    ("by position", ("rounds that accepted the draft token at that place of a chain / rounds that "
     "tested it")),
    ("mtp 3.9 x10", "by drafter: tokens a round, and its rounds"),
    ("where a round goes", ("draft, verify, accept, host: milliseconds that add up to the round; "
     "host is what the device waited for until the next round")),
    ("GB/s", ("bytes the rounds' kernels move (weights once, state, context, drafter) / the "
     "rounds' time")),
    ("of ... measured", ("the fastest that this machine read memory so far, in pauses too; "
     "never a data sheet's")),
    ("context", "tokens that the conversation holds / the most it can hold; a warning from 80 %"),
    ("RAM, qwen38", "memory in use on this machine, and by this program"),
    ("screen, lag", ("CPU time of the screen's thread in the last second, and how late its loop "
     "was: the 95th percentile of ten seconds")),
)  # fmt: skip
"""Figures by the label they have on the screen."""
