"""Paraphrase a text by WordNet's synonyms, read by nltk from a local folder.

u-hlm, Section III-A and cu-hlm, Section IV-A perturb prompts with WordNet; neither paper specifies which words are
replaced. nltk is imported inside the function that opens a dictionary.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np

from validation.errors import UserError

RUNS = 20
DEBIAN_FOLDER = Path("/usr/share/wordnet")
WORDNET_FILES = tuple(f"{part}.{kind}" for part in ("index", "data") for kind in ("noun", "verb", "adj", "adv"))
LEXICOGRAPHER_FILES = "".join(f"{number:02d} file{number} 1\n" for number in range(45))  # synonyms need no file names
# Closed word classes are excluded: WordNet lists "he" as helium and "in" as inch, which are not paraphrases.
FUNCTION_WORDS = frozenset(
    """
    a an the this that these those i me my we us our you your he him his she her it its they them their who whom
    whose which what where when why how and or nor but if than then as so because while of at by for with about
    against between into through during before after above below to from up down in out on off over under again am
    is are was were be been being have has had having do does did doing will would shall should can could may might
    must not no yes all any both each few more most some such only own same too very just there here now much many
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class WordNet:
    """A WordNet dictionary, read by nltk."""

    folder: Path
    reader: Any  # nltk's WordNetCorpusReader
    known: dict[tuple[str, int | None], list[str]] = field(default_factory=dict, repr=False)

    def synonyms(self, word: str, senses: int | None = 1) -> list[str]:
        """Return the single words that share a sense with ``word``, sorted; empty for inflected and function words.

        Parameters
        ----------
        word : str
        senses : int or None
            Number of senses per part of speech, the most frequent first; None for all.
        """
        word = word.lower()
        if word in FUNCTION_WORDS:
            return []
        if (word, senses) not in self.known:
            self.known[word, senses] = sorted(set(self._shared(word, senses)) - {word})
        return self.known[word, senses]

    def _shared(self, word: str, senses: int | None) -> Iterator[str]:
        for part in "nvar":
            for synset in self.reader.synsets(word, part)[:senses]:
                names = synset.lemma_names()
                if word in names:  # otherwise only its base form is a lemma, which would not fit the sentence
                    yield from (name for name in names if name.isalpha() and name.islower())


def find_wordnet(folder: str | Path | None = None) -> WordNet:
    """Return an opened WordNet dictionary.

    Parameters
    ----------
    folder : str or Path, optional
        Folder with WordNet's ``index.*`` and ``data.*``; default: the folder of Debian's package wordnet-base. It is
        added to ``nltk.data.path``, because nltk reads no other folder.

    Raises
    ------
    UserError
        If the folder holds no dictionary, nltk cannot read it, or nltk is not installed.
    """
    place = DEBIAN_FOLDER if folder is None else Path(folder).expanduser()
    missing = [name for name in WORDNET_FILES if not (place / name).is_file()]
    if missing:
        raise UserError(
            f"There is no WordNet dictionary in {place} ({missing[0]} is missing); "
            "install Debian's package wordnet-base, or name a folder that holds WordNet's dict files."
        )
    try:
        import nltk
        from nltk.corpus.reader.wordnet import WordNetCorpusReader, WordNetError
    except ImportError as error:
        raise UserError("Paraphrases need nltk, which is not installed; run `hlm setup validation wordnet`.") from error
    root = str(place.resolve())
    if root not in nltk.data.path:
        nltk.data.path.append(root)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The multilingual functions")  # this module uses none of them
            return WordNet(place, _tolerant(WordNetCorpusReader)(root, None))
    except (WordNetError, OSError, ValueError, StopIteration) as error:
        raise UserError(f"The WordNet dictionary in {place} cannot be read ({error}); install it again.") from error


def _tolerant(reader: Any) -> Any:
    """Return a reader class that accepts missing files which synonyms do not need, and that leaves no file open.

    Debian's folder lacks such files.
    """
    from nltk.data import SeekableUnicodeStreamReader

    def open_file(self: Any, name: str) -> Any:
        if (name == "lexnames" or name.endswith(".exc")) and not (Path(self.root) / name).is_file():
            return StringIO(LEXICOGRAPHER_FILES if name == "lexnames" else "")
        with reader.open(self, name) as file:
            return SeekableUnicodeStreamReader(BytesIO(file.read().encode()), "utf8")  # WordNet's offsets count bytes

    def map_wn(self: Any, version: str = "wordnet") -> None:  # maps between versions, only for other languages
        return None

    return type("TolerantReader", (reader,), {"open": open_file, "map_wn": map_wn})


def paraphrases(
    text: str,
    count: int = RUNS,
    *,
    wordnet: WordNet,
    rng: np.random.Generator,
    share: float = 0.5,
    senses: int | None = 1,
) -> list[str]:
    """Return versions of a text in which words are replaced by synonyms.

    The papers name only WordNet. Here each word with a synonym is replaced with probability ``share``, and at least
    one word is replaced; its synonyms are equally likely. Inflected words and function words stay, so that sentences
    remain grammatical; capitals are kept. A text without synonyms is returned unchanged.

    Parameters
    ----------
    text : str
    count : int
        Number of versions; some may be equal.
    wordnet : WordNet
    rng : numpy Generator
    share : float
        In [0, 1].
    senses : int or None
        See :meth:`WordNet.synonyms`.

    Returns
    -------
    list of str

    Raises
    ------
    UserError
        If ``count`` < 1 or ``share`` is outside [0, 1].
    """
    if count < 1:
        raise UserError(f"The number of paraphrases is {count}; it must be at least 1.")
    if not 0.0 <= share <= 1.0:
        raise UserError(f"The share of words to replace is {share}; it must be in [0, 1].")
    pieces = re.split(r"([A-Za-z]+)", text)  # words are at the odd indices
    choices = {index: wordnet.synonyms(pieces[index], senses) for index in range(1, len(pieces), 2)}
    places = np.array([index for index, found in choices.items() if found], dtype=np.int64)
    if not len(places):
        return [text] * count
    versions = []
    for _ in range(count):
        chosen = places[rng.random(len(places)) < share]
        version = list(pieces)
        for index in chosen if len(chosen) else rng.choice(places, 1):
            version[index] = _capitals(str(rng.choice(choices[index])), pieces[index])
        versions.append("".join(version))
    return versions


def _capitals(word: str, like: str) -> str:
    """Return the word with the capitalisation of the word it replaces."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word
