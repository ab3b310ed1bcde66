"""Every-day questions for the teacher: tasks, causes, workings, places, opinions, sums."""

from __future__ import annotations

import random

TASKS = """make tea|boil an egg|cook rice|cook pasta|bake bread|bake a cake|make soup|make a salad|
make a sandwich|make pancakes|peel an onion|cut vegetables|clean the house|clean the windows|
wash my hands|wash clothes|iron a shirt|fold a shirt|tie a tie|tie my shoes|sew a button|
paint a wall|hang a picture|fix a leaking tap|change a light bulb|change a tire|wash a car|
drive a car|learn to drive|plant a tree|grow tomatoes|grow flowers|water plants|plant a garden|
feed a cat|train a dog|walk a dog|take care of a fish|take care of a pet|write a letter|
write an email|write a story|write a poem|read faster|learn a language|learn to cook|
learn to swim|learn to draw|learn to sing|learn to dance|learn math|study for a test|
remember things|make friends|make new friends|talk to people|say sorry|say thank you|
be a good friend|help a friend|save money|make a budget|find a job|prepare for an interview|
start a business|sleep better|wake up early|fall asleep|relax|stay calm|stop worrying|
stay healthy|eat healthy|lose weight|exercise at home|run faster|start running|get stronger|
drink more water|treat a cold|stop a nosebleed|treat a burn|stop hiccups|cure a headache|
stay warm in winter|stay cool in summer|pack a suitcase|plan a trip|read a map|find north|
build a fire|put up a tent|swim safely|catch a fish|take a good photo|use a computer|
write a program|choose a password|stay safe online|use a phone|send a message|fix a computer|
recycle paper|save water|save energy|help the environment|throw a ball|play chess|play football|
learn to play the drums|learn to skate|make a paper plane|fly a kite|make a snowman|
wrap a gift|choose a gift|plan a party|set the table|brush my teeth|cut my nails|wash my hair|
get rid of ants|remove a stain|sharpen a knife|measure a room|build a shelf|use a saw|
keep food fresh|freeze food|store potatoes|choose ripe fruit|eat with chopsticks|
speak in public|listen better|concentrate|stop being late|be happy|be more confident|
be more patient|set goals|break a bad habit|get up in the morning|learn new words|
improve my memory|improve my writing|improve my handwriting|solve a problem|make a decision"""

CAUSES = """is the sky blue|is the sea salty|is grass green|is snow white|is the sun hot|
is blood red|is fire hot|is ice cold|is water wet|is gold expensive|is exercise good|
is sleep important|is water important|is reading important|is school important|
is friendship important|is honesty important|is music important|is history important|
is math useful|is breakfast important|is fresh air good|is sugar bad for teeth|
is smoking bad|is recycling important|is the moon bright|is the night dark|is winter cold|
is summer hot|is the desert dry|do we sleep|do we dream|do we eat|do we drink water|do we breathe|
do we yawn|do we laugh|do we cry|do we get old|do we get sick|do we have bones|do we have skin|
do we have seasons|do we have day and night|do we need food|do we need friends|do we go to school|
do we work|do we pay taxes|do we vote|do we wear clothes|do people travel|do people lie|
do people have pets|do people sing|do people fight|do birds sing|do birds fly|do birds migrate|
do fish live in water|do cats purr|do cats like boxes|do dogs bark|do dogs wag their tails|
do bees make noise|do bees visit flowers|do cows eat grass|do bears sleep in winter|
do leaves fall from trees|do leaves change color|do plants need light|do plants grow|
do flowers smell good|do trees have leaves|do stars shine|does it rain|does it snow|
does thunder make noise|does lightning happen|does ice float|does wood float|does iron rust|
does bread rise|does milk go bad|does fruit ripen|does metal feel cold|does the wind blow|
does the moon change shape|does the sun rise|do tides happen|do rivers flow|do volcanoes erupt|
do boats float|do planes fly|do magnets attract iron|do balloons rise|do clocks tick|
do cars need fuel|do phones need batteries|do computers get hot|do onions make us cry|
do muscles hurt after exercise|do teeth fall out|do eyes blink|do ears pop in a plane|
do we have two ears|do knees bend|does the heart beat|do cuts bleed|do we sneeze|do we cough"""

WORKINGS = """a car|a plane|a boat|a train|a clock|a computer|a phone|a camera|a radio|a television|
a refrigerator|a microwave|an oven|a washing machine|a light bulb|a battery|a magnet|a motor|
an engine|a bridge|a windmill|a solar panel|a rocket|a satellite|a submarine|a helicopter|
the heart|the brain|the eye|the ear|the stomach|the lungs|memory|digestion|breathing|sleep|
photosynthesis|gravity|electricity|light|sound|heat|rain|wind|a rainbow|lightning|the water cycle|
a seed|a flower|a root|a school|a bank|a hospital|a market|money|an election|a law|a court|
the internet|a search engine|email|a password|a vaccine|soap|a thermometer|a scale|a lock|
a zipper|a pump|a pulley|a lever|a wheel|glue|paint|glass|paper|a printer|a pen|recycling"""

OPEN = """what is the sun|what is the moon|what is the earth|what are stars|what are clouds|
what is a planet|what is the universe|what is the ocean|what is the weather|what is air|
what is the largest animal|what is the largest planet|what is the tallest mountain|
what is the longest river|what is the largest ocean|what is the fastest animal|
what is the smallest bird|how many days are in a week|how many days are in a year|
how many months are in a year|how many legs does a spider have|how many legs does an insect have|
how many continents are there|how many planets are there|how many hours are in a day|
what are the seasons|what are the colors of the rainbow|what are the five senses|
what do plants need to grow|what do cows eat|what do cats eat|what do dogs eat|what do birds eat|
what do fish eat|what do bees do|what do doctors do|what do teachers do|what do farmers do|
what do firefighters do|what do police officers do|what do scientists do|what do artists do|
where do fish live|where do bears live|where do birds sleep|where does milk come from|
where does bread come from|where does rain come from|where does wood come from|
where does the sun go at night|where does paper come from|where does cotton come from|
when do flowers bloom|when do birds migrate|when does it snow|when should I sleep|
when should I see a doctor|who invented the telephone|who invented the light bulb|
who invented the airplane|who was the first man on the moon|who wrote romeo and juliet|
what should I eat for breakfast|what should I wear in winter|what should I drink when I am sick|
what can I do in the rain|what can I cook with eggs|what can I cook with potatoes|
what makes a good friend|what makes a good teacher|what makes people happy|
what is a good hobby|what is a healthy breakfast|what is a good habit|what is a good pet|
what is the best time to sleep|what is the best way to learn|what is your opinion about school|
is it good to drink water|is it good to read books|is it safe to swim in the sea|
is chocolate healthy|is coffee healthy|is the earth round|is the sun a star|is a tomato a fruit|
can fish breathe|can birds swim|can dogs eat chocolate|can cats see in the dark|can plants feel|
can animals think|can people live on the moon|can penguins fly|can a computer think|
should I learn a language|should I get a dog|should I get a cat|should I exercise every day|
should children have phones|what do you think about music|what do you think about art|
what do you think about summer|what do you think about the sea|what do you think about books|
what do you think about sport|what do you think about cooking|what do you think about travel|
do you like the sea|do you like the rain|do you like to read|do you like movies|
do you like games|do you like flowers|do you like the mountains|do you like sports"""

CAPITALS = """France:Paris|Germany:Berlin|Italy:Rome|Spain:Madrid|Portugal:Lisbon|Poland:Warsaw|
Austria:Vienna|Switzerland:Bern|Belgium:Brussels|Greece:Athens|Sweden:Stockholm|Norway:Oslo|
Denmark:Copenhagen|Finland:Helsinki|Ireland:Dublin|England:London|Scotland:Edinburgh|
Russia:Moscow|Ukraine:Kyiv|Turkey:Ankara|Egypt:Cairo|Kenya:Nairobi|Japan:Tokyo|China:Beijing|
India:New Delhi|Thailand:Bangkok|Vietnam:Hanoi|Indonesia:Jakarta|Australia:Canberra|
Canada:Ottawa|Mexico:Mexico City|Brazil:Brasilia|Argentina:Buenos Aires|Chile:Santiago|
Peru:Lima|Cuba:Havana|Hungary:Budapest|Romania:Bucharest|Bulgaria:Sofia|Israel:Jerusalem|
Iran:Tehran|Iraq:Baghdad|Pakistan:Islamabad|Nepal:Kathmandu|South Korea:Seoul|Morocco:Rabat|
the Netherlands:Amsterdam|the United States:Washington, D.C.|Iceland:Reykjavik|Colombia:Bogota"""


def _items(text: str) -> list[str]:
    """Splits a |-separated block."""
    return [t.strip() for t in text.replace("\n", "").split("|")]


def everyday_questions() -> list[str]:
    """Returns every question of this file, lower case, without a question mark."""
    out = [f"{how} {t}" for t in _items(TASKS) for how in ("how do i", "how can i", "how to")]
    out += [f"how do you {t.replace(' my ', ' your ')}" for t in _items(TASKS)]
    out += [f"what is the best way to {t}" for t in _items(TASKS)[::2]]
    out += [f"give me a tip to {t}" for t in _items(TASKS)[1::2]]
    out += [f"why {c}" for c in _items(CAUSES)]
    out += [f"can you explain why {_statement(c)}" for c in _items(CAUSES)]
    for thing in _items(WORKINGS):
        out += [f"how does {thing} work", f"explain how {thing} works", f"what is {thing} used for"]
        out += [f"why is {thing} important", f"what would happen without {thing}"]
    return out + _items(OPEN)


def _statement(cause: str) -> str:
    """Turns 'is the sky blue' or 'do we sleep' into 'the sky is blue', 'we sleep'."""
    words = cause.split()
    if words[0] == "do":
        return " ".join(words[1:])
    if words[0] == "is":
        cut = 3 if words[1] in ("the", "fresh") else 2
        return " ".join([*words[1:cut], "is", *words[cut:]])
    return cause


def fact_pairs(rng: random.Random, sums: int = 1500) -> list[tuple[str, str]]:
    """Returns hand-made (question, answer) pairs: capitals of countries and small sums."""
    pairs = []
    for item in _items(CAPITALS):
        land, city = item.split(":")
        answer = f"The capital of {land} is {city}."
        pairs += [(f"{ask} the capital of {land}", answer) for ask in ("what is", "which city is")]
        pairs.append((f"where is {city}", f"{city} is the capital of {land}."))
    for _ in range(sums):
        a, b = rng.randint(0, 20), rng.randint(0, 20)
        sign, word, value = rng.choice([("+", "plus", a + b), ("-", "minus", a - b)])
        asks = (f"what is {a} {sign} {b}", f"how much is {a} {word} {b}", f"{a} {sign} {b}")
        ask = rng.choice(asks)
        if value >= 0:
            pairs.append((ask, f"The answer is simple: {a} {word} {b} is {value}."))
    return pairs
