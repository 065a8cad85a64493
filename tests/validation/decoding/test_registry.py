"""The registry of decoding methods: complete, with distinct names and styles, and consistent with stored journals."""

import inspect
import re
from pathlib import Path

import pytest

import validation
from hlmtheory import all_claims
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS, MODULES, info_of
from validation.decoding.methods.multi_draft import FlexSpec
from validation.decoding.methods.planned import Audited
from validation.decoding.methods.quantized import AdaptiveSqs, Sqs
from validation.decoding.methods.registry import Family, Fitted, MethodInfo, PlotStyle, Setup, register
from validation.decoding.methods.rows import KEEPING, OWN_DRAFTS, Absent, Format, Law
from validation.decoding.methods.shared_seed import SharedSeedStreamed
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.methods.trees import SampledTree
from validation.decoding.studies import STUDIES
from validation.errors import UserError
from validation.link.formats import Terms

FITTED = Fitted(1.1, 0.02, 0.5, 0.1, 0.5, 0.3, 17)
BASES = (Method, Sqs, AdaptiveSqs, SampledTree, Audited)  # base classes, and a policy that is audited


def test_every_method_of_the_folder_is_registered():
    found = {
        each
        for module in MODULES
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Method) and not inspect.isabstract(each)
    }
    assert found - set(BASES) == {info.method for info in METHODS.values()}


@pytest.mark.parametrize("name", STUDIES)
def test_a_stored_name_finds_the_entry_that_made_it(name):
    for method in STUDIES[name].methods(FITTED):
        info = info_of(method.name)
        assert info.method is type(method)
        assert method.name == info.name or method.name.removeprefix(info.name)[0] in " ,"


def test_a_method_with_its_default_parameters_has_the_name_of_its_entry():
    for info in METHODS.values():
        if info.default is not None:
            assert info_of(info.default(Setup(FITTED, 3)).name) is info


def test_every_method_says_its_message_its_law_and_its_source():
    known = (Path(validation.__file__).parent / "references.bib").read_text(encoding="utf-8")
    for name, info in METHODS.items():
        assert info.method is not None
        assert info.method.format, name
        source = info.method.source
        assert f"{{{source}," in known or source in (*all_claims(), "policy") or info.family is Family.ONE_MODEL, name
        for each in info.method.__mro__:  # who writes other messages says which
            own = vars(each).keys() & {"message", "tree_message"}
            assert "format" in vars(each) or not own or each in (Hlm, FlexSpec, SharedSeedStreamed), each
        assert info.printed == ("printed acceptance" in name)
        skips = info.family in (Family.RAND_HLM, Family.U_HLM, Family.CU_HLM) or name == "small only"
        assert (info.law is Law.LOST) == (skips or info.printed)


@pytest.mark.parametrize("name", [name for name, info in METHODS.items() if info.default])
def test_a_server_on_a_link_takes_the_registered_message_or_none(name):
    method = METHODS[name].default(Setup(FITTED, 3))
    if isinstance(method.format, Absent):
        with pytest.raises(UserError, match=rf"does not run over a link, because {re.escape(method.format)}"):
            Terms.of(method)
    else:
        terms = Terms.of(method)
        assert terms.format == (Format.TOKENS if method.by_argmax else method.format)
        assert Terms.from_plain(terms.plain(), 4096) == terms


def test_the_page_s_table_of_methods_says_what_is_registered():
    page = (Path(__file__).parents[3] / "docs" / "choose.md").read_text(encoding="utf-8")
    lines = page.partition("## The methods, by name")[2].partition("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    assert len(table) >= 14
    for names, _, _, exact in table:
        known = [info for info in METHODS.values() if info.name in names.split(", ") or info.name == names]
        planned = [info for info in METHODS.values() if info.method and info.method.row == names]
        if names not in ("edge-sd", *OWN_DRAFTS, KEEPING):
            assert exact in {str(info.law) for info in known or planned}, names


def test_a_name_is_registered_once_and_an_unknown_one_is_refused():
    info = MethodInfo("HLM", Family.HLM, PlotStyle("black", "o"))
    with pytest.raises(ValueError, match="already registered as 'HLM'"):
        register(info)(Method)
    with pytest.raises(UserError, match="No method is registered as 'HLMX "):
        info_of("HLMX (k = 3)")
