"""``qwen38 sessions`` over conversations that a piped chat left."""

import json
import os
import resource


def talk(scripted, text):
    done = scripted([], "chat", input=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"A volcano is a mountain that can erupt.\n"
    return done


def test_a_piped_chat_is_kept_listed_shown_exported_and_deleted(scripted, qwen38, tmp_path):
    done = talk(scripted, b"first\nquestion \x1b[2J")
    assert b"demo model" in done.stderr
    assert b"--model DIR" in done.stderr
    listed = json.loads(qwen38("sessions", "list", "--json").stdout)
    assert [one["num_messages"] for one in listed] == [2]
    name = listed[0]["id"]
    assert b"first question" in qwen38("sessions", "list").stdout
    assert b"## You\n\nfirst\nquestion" in qwen38("sessions", "show", name).stdout
    data = json.loads(qwen38("sessions", "export", name, "--format", "json").stdout)
    assert data["messages"][1]["record"]["rounds"][0]["drafter"] == "mtp"
    target = tmp_path / "out.json"
    assert qwen38("sessions", "export", name, str(target)).returncode == 0
    assert json.loads(target.read_text()) == data
    refused = qwen38("sessions", "export", name, str(target))
    assert refused.returncode == 1
    assert b"exists already" in refused.stderr
    assert b"--force" in refused.stderr
    assert qwen38("sessions", "export", name, str(target), "--force").returncode == 0
    assert qwen38("sessions", "delete", name).returncode == 0
    assert qwen38("sessions", "show", name).returncode == 1


def test_resume_goes_on_with_the_last_one(scripted, qwen38):
    talk(scripted, b"first")
    done = scripted([], "chat", "--resume", input=b"second")
    assert done.returncode == 0
    listed = json.loads(qwen38("sessions", "list", "--json").stdout)
    assert [one["num_messages"] for one in listed] == [4]
    both = scripted([], "chat", "--resume", "--system", "be brief", input=b"x")
    assert (both.returncode, b"/system in the chat changes it" in both.stderr) == (2, True)
    missing = scripted([], "chat", "--resume", "nope", input=b"x")
    assert missing.returncode == 1
    assert b"There is no session 'nope'" in missing.stderr


def test_a_crash_of_the_engine_keeps_the_question_and_the_text(scripted, qwen38):
    done = scripted([{"crashes_after": 1}], "chat", input=b"hello")
    assert done.returncode == 1
    assert b"The engine broke" in done.stderr
    assert b"Traceback" not in done.stderr
    name = json.loads(qwen38("sessions", "list", "--json").stdout)[0]["id"]
    data = json.loads(qwen38("sessions", "export", name, "--format", "json").stdout)
    assert data["messages"][1]["content"] == "A volcano is"
    assert data["messages"][1]["state"] == "stopped"


def test_nothing_is_kept_when_the_person_says_so(scripted, tmp_path):
    assert scripted([], "chat", "--set", "chat.save=off", input=b"hello").returncode == 0
    assert not (tmp_path / "data").exists()


def test_a_full_disk_gives_the_answer_and_a_sentence(scripted, tmp_path):
    def no_file_may_grow():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = scripted([], "chat", input=b"hello", preexec_fn=no_file_may_grow)
    assert done.returncode == 1
    assert done.stdout == b"A volcano is a mountain that can erupt.\n"
    assert b"The conversation was not saved: File too large" in done.stderr
    assert b"tried again" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert list((tmp_path / "data" / "sessions").iterdir()) == []


def test_a_data_folder_that_is_a_file_is_said_by_every_command(scripted, qwen38, tmp_path):
    (tmp_path / "data").write_text("")
    done = scripted([], "chat", input=b"hello")
    assert done.returncode == 1
    assert b"The conversation was not saved: Not a directory" in done.stderr
    listed = qwen38("sessions", "list")
    assert listed.returncode == 1
    assert b"cannot be read: Not a directory" in listed.stderr


def test_a_refused_pipe_leaves_the_conversation_as_it_was(scripted, qwen38):
    talk(scripted, b"first")
    done = scripted([{"refuses": "Too long."}], "chat", "--resume", input=b"long")
    assert done.returncode == 2
    assert b"Too long." in done.stderr
    assert scripted([], "chat", "--resume", input=b"second").returncode == 0
    name = json.loads(qwen38("sessions", "list", "--json").stdout)[0]["id"]
    data = json.loads(qwen38("sessions", "export", name, "--format", "json").stdout)
    asked = [one["content"] for one in data["messages"] if one["id"] in data["path"]][::2]
    assert asked == ["first", "second"]
    assert "long" in [one["content"] for one in data["messages"]]


def test_files_that_are_no_sessions_are_counted_and_not_waited_for(scripted, qwen38, tmp_path):
    talk(scripted, b"first")
    folder = tmp_path / "data" / "sessions"
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "foreign.jsonl").write_text("not ours")
    listed = qwen38("sessions", "list")
    assert listed.returncode == 0
    assert listed.stdout.count(b"\n") == 1
    told = f"2 files in {folder} could not be read: pipe.jsonl, foreign.jsonl."
    assert told.encode() in listed.stderr
    assert qwen38("sessions", "show", "pipe").returncode == 1
    qwen38("sessions", "delete", listed.stdout.split()[0].decode())
    assert qwen38("sessions", "list").stderr.decode() == f"{told}\n"


def test_delete_takes_all_or_none(scripted, qwen38):
    talk(scripted, b"first")
    name = json.loads(qwen38("sessions", "list", "--json").stdout)[0]["id"]
    assert b"There is no session 'nope'" in qwen38("sessions", "delete", name, "nope").stderr
    assert b"at least 8 characters" in qwen38("sessions", "delete", name[:7]).stderr
    assert qwen38("sessions", "show", name).returncode == 0
    assert qwen38("sessions", "delete", name[:8], name).returncode == 0
    assert qwen38("sessions", "show", name).returncode == 1


def test_a_megabyte_piped_into_chat_is_kept(scripted, qwen38):
    done = scripted([], "chat", input=b"word " * 200_000)
    assert done.returncode == 0
    name = json.loads(qwen38("sessions", "list", "--json").stdout)[0]["id"]
    data = json.loads(qwen38("sessions", "export", name, "--format", "json").stdout)
    assert len(data["messages"][0]["content"]) == 1_000_000
    refused = scripted([], "chat", input=b"")
    assert refused.returncode == 2
    assert b"stdin holds no prompt" in refused.stderr
