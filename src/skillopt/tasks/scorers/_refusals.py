"""Whether a text is a refusal and nothing else, in the languages that chat models apologise in."""

from __future__ import annotations

import re

_SHORT = 600
"""Characters from which a text is no mere refusal, however it begins."""
_UNABLE = (
    r"(?:can(?:no|['’])t|can not|could(?:n['’]t| not)|won['’]?t|will not|must decline|decline|refuse"
    r"|(?:un|not )able|not (?:possible|allowed|permitted)|no)\b"
)
_APOLOGY = r"(?:(?:i['’]?m|i am|we['’]?re|we are) (?:very |so |really )?sorry|sorry|i apologi[sz]e|apologies)"
# An apology is a refusal only if its own sentence says so, or if nothing follows it.
_ENGLISH = (
    rf"{_APOLOGY}\b(?:[^.!?\n]*?\b{_UNABLE}|[^.!?:\d\n]{{0,40}}[.!?]?\s*\Z)"
    r"|(?:unfortunately,? |(?:i['’]?m|i am) afraid,? (?:that )?)?(?:i|we)(?:['’]?m| am|['’]re| are)? "
    rf"{_UNABLE}(?! (?:believe|recommend|stress|overstate|imagine|wait)\b)|as an ai\b"
)
_ELSEWHERE = (
    # German
    r"(?:(?:es )?tut mir (?:sehr )?leid|leider|entschuldigung)\b[^.!?\n]*\b(?:kann|darf|können|dürfen)\b"
    r"[^.!?\n]*\bnicht\b",
    r"ich (?:kann|darf|werde)\b[^.!?\n]*\bnicht (?:\w+ )?(?:(?:weiter)?helfen|beantworten|erfüllen)\b",
    # French
    r"(?:je suis (?:vraiment |sincèrement )?désolée?|désolée?|malheureusement|je regrette)\b[^.!?\n]*\bne "
    r"(?:peux|puis|pouvons|suis|sommes)\b",
    r"je ne (?:peux|puis) pas (?:vous |t['’])?(?:aider|répondre|fournir)\b",
    # Spanish, Italian, Portuguese
    r"(?:lo siento|lo lamento|disculp[ae]|perdón|desafortunadamente|lamentablemente)\b[^.!?\n]*\bno "
    r"(?:puedo|podemos|me es posible|es posible)\b",
    r"no puedo (?:ayudar|responder|proporcionar|cumplir)\w*",
    r"(?:mi dispiace|spiacente|purtroppo|scusa)\b[^.!?\n]*\bnon (?:posso|possiamo|sono in grado)\b",
    r"non posso (?:aiutar|risponder|fornir)\w*",
    r"(?:desculpe|lamento|sinto muito|infelizmente)\b[^.!?\n]*\bnão (?:posso|podemos|consigo|é possível)\b",
    r"não (?:posso|consigo) (?:ajudar|responder|fornecer)\w*",
    # Dutch, Polish, Russian
    r"(?:het spijt me|helaas|sorry)\b[^.!?\n]*\b(?:kan|mag)\b[^.!?\n]*\bniet\b",
    r"(?:przepraszam|przykro mi|niestety)\b[^.!?\n]*\bnie mog[ęe]\b",
    r"(?:извините|простите|к сожалению|мне жаль|прошу прощения)\b[^.!?\n]*\bне (?:могу|можем)\b",
    r"я не могу (?:помочь|ответить|выполнить|предоставить)\b",
    # Chinese, Japanese, Korean: no blanks between words
    r"(?:很)?(?:抱歉|对不起|對不起|遗憾|遺憾)[^。！？\n]*(?:无法|無法|不能)",
    r"我(?:无法|無法|不能)(?:协助|協助|帮助|幫助|提供|回答|满足|滿足)",
    r"(?:大変)?(?:申し訳|すみません|恐れ入りますが|残念ながら)[^。！？\n]*(?:できません|できかねます|いたしかねます)",
    r"(?:죄송|미안)[^.!?\n]*수 없",
)
_REFUSAL = re.compile("|".join((_ENGLISH, *_ELSEWHERE)), re.IGNORECASE)
_MARKS = re.compile(r"^[\s>#*_`\-]+")


def is_refusal(text: str) -> bool:
    """Whether a short text begins by refusing; one that is empty refuses too."""
    bare = _MARKS.sub("", text).replace("**", "").strip()
    return not bare or (len(bare) < _SHORT and _REFUSAL.match(bare) is not None)
