"""What a person's next words say about the answer before them, by words alone.

The free filter before a model reads a session, and what stands in where no model is configured. It knows the
plain words of a few languages; soft wording is for a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from skillopt.night.kinds import PASTED, pasted

Reaction = Literal["accepted", "corrected", "redone", "abandoned", "none"]
_HEAD = 300
QUOTED = re.compile(
    r"```[^`]*(?:```|\Z)|^[ \t]*>[^\n]*$|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|(?<!\w)'[^'\n]{1,300}'(?!\w)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledReaction:
    """What rules read off a turn; `lasting` is a wish for every time, not for this once."""

    reaction: Reaction
    lasting: bool = False


def _any(*phrases: str, start: bool = False) -> re.Pattern[str]:
    # Writing without spaces has no word boundaries, so only phrases of letters with spaces around get them.
    words = "|".join(phrases)
    return re.compile(rf"{'^' if start else ''}[\W_]{{0,5}}(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


_ABANDONED = _any(
    r"never ?mind|forget (?:it|that|about it)|don'?t bother|drop (?:it|this)|leave it(?: be)?, i",
    r"not worth it",
    r"(?:no longer|not) needed(?: any ?more)?|vergiss (?:es|das)|lass (?:gut|es) (?:sein|bleiben)",
    r"lassen (?:wir )?das|laisse tomber|oublie(?: ça)?|olv[ií]da(?:lo|te)|d[ée]jalo|deixa (?:pra|para) lá",
    r"esquece|lascia (?:stare|perdere)|laat maar|nieważne|забудь|не надо|hoppa över det|boş ?ver",
)
_REDONE = _any(
    r"(?:try|do (?:it|this|that)|once) (?:over )?again|start (?:over|again|from scratch)|begin again|redo",
    r"from scratch|another (?:go|try)",
    r"(?:i|we) (?:re)?(?:wrote|did|fixed|made) (?:it|that|this) (?:my|our)sel\w+",
    r"by hand|my own version|noch ?mal(?: neu| von vorn)?|noch einmal|von vorn(?:e)?|neu machen",
    r"selbst (?:um)?(?:ge\w+)|recommence\w*|refais|moi-même|(?:otra vez|de nuevo|desde cero)|hazlo otra",
    r"(?:faz|faça|tenta) de novo|do (?:começo|zero)|da capo|rifallo|opnieuw|jeszcze raz|od nowa",
    r"заново|ещ[её] раз|переделай|om igen|gör om|baştan|yeniden yap",
)
_CORRECTED_START = _any(
    r"no|nope|wrong|not (?:quite|right|good|what|correct|like)|hmm+|almost|undo|revert|stop",
    r"actually|instead|nein|falsch|nicht|fast|eigentlich|non|pas|faux|presque|no|casi|mal|não|quase|errado",
    r"sbagliato|quasi|nee|niet|fout|nie|prawie|źle|нет|не|почти|nej|inte|fel|hayır|değil",
    start=True,
)
_CORRECTED = _any(
    r"still (?:broken|not|wrong|fail\w*|does|missing|too)|(?:does|did|is|was|are|were)(?:n'?t| not)",
    r"(?:is|was|looks|that'?s|it'?s) (?:still )?(?:wrong|incorrect|broken|missing|off)|you (?:forgot|missed)",
    r"you (?:ignored|broke|keep|deleted)|i (?:said|asked|told|meant|want|need|prefer|expected)",
    r"i'?d (?:rather|prefer|like)|i would have|(?:too|way too|a bit too) \w+",
    r"should(?:n'?t| not)? (?:be|have|not)",
    r"don'?t|do not|never|always|from now on|instead|please (?:fix|revert|undo|remove|use|keep)",
    r"make (?:it|them)",
    r"next time|in (?:the )?future|in general|we (?:never|always|usually|use|write|tend|like|don'?t)",
    r"our \w+ is",
    r"could (?:you|we) (?:maybe|please|drop|keep|make)|would be (?:nice|nicer|better|good)",
    r"one thing|crashes|doesn'?t",
    r"immer|nie(?:mals)?|künftig|in zukunft|ab jetzt|bei uns|grundsätzlich|(?:es |da )?fehlt|stimmt nicht",
    r"lieber|geht nicht|vergessen|falsch|diesmal|ohne|statt(?:dessen)?|wir \w+en",
    r"bitte (?:kein\w*|ohne|immer)",
    r"toujours|jamais|chez nous|désormais|il manque|oublié|plutôt|mieux|en général|on évite|sans|faux",
    r"siempre|nunca|falta|faltan|prefer\w+|a partir de ahora|equivocaste|mejor|sin|nuestr\w+",
    r"sempre|falta|prefiro|nunca|manca|di solito|da noi|preferirei|voortaan|altijd|nooit|liever|mist",
    r"zawsze|nigdy|u nas|brakuje|всегда|никогда|у нас|не то(?:т)?|alltid|aldrig|vi brukar|her zaman|asla",
)
_NO_SPACES = {
    "corrected": re.compile(
        r"^\s*👎|不对|不是|错|应该|以后|不要|违|違い|違う|今後|してください|ではなく|아니|틀렸"
    ),
    "redone": re.compile(r"重新|再来|重写|やり直|もう一度|다시"),
    "abandoned": re.compile(r"算了|不用了|もういい|やめ|됐어"),
    "accepted": re.compile(
        r"很好|完美|谢谢|可以|不错|完璧|ありがとう|いいです|좋아|완벽|고마|^\s*[👍👌💯🎉✅🙏]"
    ),
}
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+\w")
"""A line of a list."""
_POLITE = re.compile(r"\W*no (?:problem|worries|complaints|need)\b", re.IGNORECASE)
_NO_AND = re.compile(
    r"\W*\w+(?:[,.!]\s*|\s(?=thank|dank|merci|gracias|obrigad|grazie|bedankt|dzięk|tack))", re.I
)
_ACCEPTED = _any(
    r"thanks?(?: you)?(?! in advance)|thx|cheers|perfect|great|awesome|excellent|brilliant|lovely|sweet|cool",
    r"looks (?:good|right|great)|lgtm|works|well done|good(?: job| one)?|exactly|love(?:d)? it|ship it|nice",
    r"fine|spot on|merge it|ok good|this is what|that'?s it|(?:like|just) that|yes",
    r"danke\w*|perfekt|super|passt|prima|genau(?: so)?|sieht gut aus|läuft|klasse|gut so",
    r"merci|parfait|génial|c'est (?:bon|exactement)|ça marche|très bien|super",
    r"gracias|perfecto|genial|muy bien|exacto|obrigad\w|valeu|perfeito|ótimo|ficou (?:bom|ótimo)",
    r"grazie|perfetto|va ben\w+|ottimo|bedankt|dank je\w*|goed|prima|dzięki|świetnie|super|о?тлично|спасибо",
    r"хорошо|tack|toppen|bra|teşekkür\w*|harika|güzel",
)
_ASKS = _any(
    r"what|which|why|how|where|when|who|is there|can you explain|tell me|write|add|fix|open|summari[sz]e",
    r"translate|now write|next|here is|implement|review|was|wie|warum|welche\w*|schreib|und jetzt|erkläre?",
    r"écris|à quoi|comment|pourquoi|combien|qu'est|ahora|cuánt\w+|qué|cómo|agora|o que|como|come|quanto",
    r"теперь|как|что|зачем|接下来",
    start=True,
)
_LASTING = _any(
    r"always|never|ever|from now on|every|each|usually|normally|generally|in general|in (?:the )?future",
    r"next time|we (?:use|write|never|always|like|don'?t|tend|avoid)|our|for us|here we|convention|remember",
    r"(?:i )?prefer|must|keep \w+ing|immer|nie(?:mals)?|künftig|in zukunft|ab jetzt|bei uns",
    r"grundsätzlich|alle",
    r"jede[sn]?|wir \w+en|toujours|jamais|chez nous|désormais|en général|chaque|on évite|siempre|nunca|cada",
    r"nuestr\w+|usamos|sempre|a gente|di solito|da noi|voortaan|altijd|nooit|zawsze|nigdy|u nas|всегда|у нас",
    r"никогда|alltid|aldrig|vi brukar|her zaman|bizde",
)
_LASTING_NO_SPACES = re.compile(r"以后|总是|每次|都|今後|毎回|いつも|항상|앞으로")

_ON = _any(
    r"also|and|but|now|then|next|instead|again|continue|go on|yes|ok|okay|sure|why|what about|how about",
    r"make it",
    r"it|that|this|these|those|they|same|another|one more|thanks|great|perfect|no|can you also",
    r"could you also",
    r"do the same|und|aber|dann|jetzt|auch|et|mais|puis|aussi|y|pero|también|e|mas|também|ma|anche|en",
    r"maar|и|но",
    start=True,
)


def follows_on(text: str) -> bool:
    """Whether a turn goes on with what was said before it."""
    return _ON.match(text) is not None


def reaction(text: str) -> RuledReaction:
    """What the beginning of a later turn says about the answer before it; what it quotes, and a log or a
    program that was pasted into it, say nothing.
    """
    words, material = pasted(text)
    lines = material.splitlines()
    if 2 * sum(bool(PASTED.search(line)) and not _ITEM.match(line) for line in lines) < len(lines):
        words = text  # below a colon, or in a list, people write themselves
    head = QUOTED.sub(" ", words[: 4 * _HEAD])[:_HEAD].replace("’", "'")
    lasting = bool(_LASTING.search(head) or _LASTING_NO_SPACES.search(head))
    for found, pattern in _NO_SPACES.items():
        if pattern.search(head):
            return RuledReaction(reaction=found, lasting=lasting and found == "corrected")  # type: ignore[arg-type]
    if _ABANDONED.search(head):
        return RuledReaction(reaction="abandoned")
    if _REDONE.search(head):
        return RuledReaction(reaction="redone")
    content = _ACCEPTED.search(head)
    if _ASKS.match(head) and (content is None or content.start() > 0):
        return RuledReaction(reaction="none")
    # "No problem, thanks" and "no, thanks" are content; "thanks, but we never ..." is not.
    against = _CORRECTED_START.match(head) or _CORRECTED.search(head)
    if against and not _is_polite(head):
        return RuledReaction(reaction="corrected", lasting=lasting)
    return RuledReaction(reaction="accepted" if content else "none")


def _is_polite(head: str) -> bool:
    """Whether a turn that opens with a no is content all the same: nothing is behind it but thanks."""
    refused = _NO_AND.match(head)
    thanked = refused is not None and _ACCEPTED.fullmatch(head[refused.end() :].rstrip(" .!"))
    return bool(thanked or _POLITE.match(head))
