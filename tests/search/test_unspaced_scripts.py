"""Chinese and Japanese, which write no spaces: which page comes first, and what is marked. The pages are written for
these tests.
"""

import pytest

from tarrafa.index import follower as index
from tarrafa.search.query_parser import parse
from tarrafa.search.snippet import mark_terms, terms_of_texts
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import Asker

PAGES = {
    "ja/settings": (
        "設定ファイルの書き方",
        "プログラムは起動のたびに設定ファイルを読み込みます。値を変えたら再起動してください。",
    ),
    "ja/network": (
        "ネットワークの設定",
        "無線LANの鍵を入力すると、ネットワークに接続できます。ファイアウォールは既定で有効です。",
    ),
    "ja/printing": ("印刷の手順", "プリンターを選び、用紙の大きさを決めてから印刷します。両面印刷にも対応しています。"),
    "ja/backup": (
        "バックアップと復元",
        "大切なファイルは毎晩バックアップします。壊れたときは復元の手順に従ってください。",
    ),
    "ja/files": ("ファイルを探す", "名前や日付でファイルを探せます。設定は保存されません。"),
    "ja/tea": ("お茶の時間", "休憩室では緑茶と紅茶を飲めます。"),
    "ja/linux": ("Linux入門", "Linuxカーネルの仕組みと、C++言語での開発を学びます。"),
    "zh/install": ("安装软件包", "用包管理器可以安装软件包,也可以删除不需要的软件包。"),
    "zh/remove": ("删除用户", "管理员可以删除用户账号,主目录会一起删除。"),
    "zh/network": ("网络配置", "编辑配置文件以后,重新启动网络服务。无线网络需要密码。"),
    "zh/backup": ("备份与恢复", "每天晚上自动备份重要文件,硬盘损坏时可以恢复。"),
    "zh/print": ("打印文件", "选择打印机和纸张大小,然后打印。"),
    "zh/kernel": ("编译内核", "下载内核源代码,配置选项,然后编译并安装内核。"),
    "zh/tea": ("喝茶", "会议室里有绿茶和红茶。"),
}

FIRST = {
    # in a longer run of letters
    "設定ファイル": "ja/settings",
    "ネットワーク": "ja/network",
    "無線LAN": "ja/network",
    "両面印刷": "ja/printing",
    "復元": "ja/backup",
    "カーネル": "ja/linux",
    "软件包": "zh/install",
    "无线网络": "zh/network",
    "硬盘": "zh/backup",
    "源代码": "zh/kernel",
    "删除用户": "zh/remove",
    # several words without a space between them, in no page in this order
    "软件包安装": "zh/install",
    "内核编译": "zh/kernel",
    "如何打印文件": "zh/print",
    "ファイル設定": "ja/settings",
    # words with spaces, phrases and operators
    "配置 网络": "zh/network",
    '"配置文件"': "zh/network",
    "文件 -备份 -配置": "zh/print",
    "+バックアップ ファイル": "ja/backup",
    "intitle:印刷": "ja/printing",
    "C++言語": "ja/linux",
    "安装软*": "zh/install",
    # one letter, alone or inside of words
    "茶": "zh/tea",
    "鍵": "ja/network",
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("unspaced") / "data")
    records = [
        a_record(f"http://{name[:2]}.test/{name[3:]}", title=title, text=f"{title}\n{text}", language=name[:2])
        for name, (title, text) in PAGES.items()
    ]
    write(data, records)
    index.catch_up(data)
    return Asker(data)


def found(ask: Asker, text: str) -> list[str]:
    return [hit.url.removeprefix("http://").replace(".test", "") for hit in ask.search(text).hits]


@pytest.mark.parametrize(("text", "first"), FIRST.items())
def test_the_page_that_is_about_a_text_without_spaces_comes_first(ask, text, first):
    assert found(ask, text)[:1] == [first]


def test_a_quoted_run_needs_all_its_letters_in_a_row(ask):
    assert found(ask, '"软件包安装"') == []
    assert found(ask, '"安装软件包"') == ["zh/install"]
    assert set(found(ask, '"ファイル"')) == {"ja/settings", "ja/backup", "ja/files"}


def test_pages_with_the_whole_run_are_counted_and_others_follow(ask):
    result = ask.search("配置文件")
    assert (result.total, result.hits[0].url) == (1, "http://zh.test/network")


def test_one_letter_is_found_in_every_word_that_has_it(ask):
    assert set(found(ask, "茶")) == {"ja/tea", "zh/tea"}
    assert set(found(ask, "茶*")) == {"ja/tea", "zh/tea"}
    assert found(ask, "+茶 lang:ja") == ["ja/tea"]


def marked(ask: Asker, text: str) -> list[str]:
    best = ask.search(text).hits[0]
    pieces = mark_terms(best.snippet, terms_of_texts(parse(text).texts), best.language)
    return [piece for piece, is_marked in pieces if is_marked]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("源代码", ["源代码"]),
        ("設定ファイル", ["設定ファイル"] * 2),
        ("鍵", ["鍵"]),
        ("无线网络 密码", ["网络", "网络", "无线网络", "密码"]),
    ],
)
def test_a_snippet_marks_runs_as_a_whole(ask, text, expected):
    assert marked(ask, text) == expected


def test_marks_join_words_that_overlap_and_nothing_else():
    pieces = mark_terms("用Linux安装软件包。软件", terms_of_texts(["安装软件", "Linux"]), "zh")
    assert pieces == [("用", False), ("Linux", True), ("安装软件", True), ("包。", False), ("软件", True)]


def test_no_other_spelling_and_no_error_for_unknown_letters(ask):
    for text in ("龘靐", "龘", "設定龘靐ファイル齉", "ぬぬぬ", "茶 龘"):
        assert ask.search(text).suggestion is None
    assert found(ask, "龘靐") == []


def test_similar_pages_share_words_without_spaces(ask):
    similar = ask.search("", related="http://zh.test/kernel").hits
    assert similar and {hit.language for hit in similar} == {"zh"}


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("設", ["設定"]),
        ("設定フ", ["設定ファイル"]),
        ("软件", ["软件包"]),
        ("内核 安", ["内核 安装"]),
        ("删除 软件", ["删除 软件包"]),
        ("ネットワ", ["ネットワーク"]),
        ("龘靐", []),
    ],
)
def test_a_run_is_completed_by_what_follows_it_in_the_pages(ask, typed, completed):
    assert ask.searcher.suggest(typed)[:1] == completed
