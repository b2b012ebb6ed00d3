package checkpoint

import (
	"math/rand/v2"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// sentences are in 40 languages, and code.
var sentences = []string{
	"The robot's arm isn't here; they'll bring 3 cups.", "Der Roboter räumt große Tassen weg.", "L'été, où est le café ?", "¿Dónde está la taza, señor?",
	"O robô não está na cozinha.", "Il robot è già lì, però aspetta.", "De robot ligt in de keuken.", "Roboten är på väg till köket.", "Robotti menee keittiöön.",
	"Vélmennið er í eldhúsinu, þar sem ljósið er.", "Robot jest w kuchni, źdźbło leży obok.", "Robot je v kuchyni, příliš žluťoučký kůň.", "A robot a konyhában van, őrült űr.",
	"Robotul este în bucătărie.", "Robot mutfakta, ışığı söndür.", "Ρομπότ, άνοιξε την πόρτα!", "Робот на кухне, съешь ещё булок.", "Робот у кухні, їжак і ґанок.",
	"Роботът е в кухнята.", "რობოტი სამზარეულოშია.", "Ռոբոտը խոհանոցում է։", "הרובוט נמצא במטבח.", "הַמִּטְבָּח", "الروبوت في المطبخ.", "مُحَمَّدٌ ذَهَبَ", "روبات در آشپزخانه است.", "روبوٹ باورچی خانے میں ہے۔",
	"रोबोट रसोई में है, क्षत्रिय।", "রোবট রান্নাঘরে আছে।", "ரோபோ சமையலறையில் உள்ளது.", "రోబోట్ వంటగదిలో ఉంది.", "ರೋಬೋಟ್ ಅಡುಗೆಮನೆಯಲ್ಲಿದೆ.", "റോബോട്ട് അടുക്കളയിലാണ്.", "රොබෝ කුස්සියේ සිටී.",
	"หุ่นยนต์อยู่ในครัว", "ຫຸ່ນຍົນຢູ່ໃນເຮືອນຄົວ", "စက်ရုပ်က မီးဖိုချောင်မှာ ရှိတယ်။", "មនុស្សយន្តនៅក្នុងផ្ទះបាយ។", "Rô-bốt đang ở trong bếp, nghĩ đến ngày mai.", "机器人在厨房里，请等一下。", "機器人在廚房。",
	"ロボットは台所にいます。ガギグゲゴ", "로봇은 부엌에 있습니다.", "ሮቦቱ በኩሽና ውስጥ ነው።", "བོད་ཡིག་གི་ཡི་གེ།", "Ro̱boti wa jikoni, ng'ombe.",
	`{"name": "go_to", "arguments": {"room": "kitchen", "x": -0.25e+10, "ok": [true, null]}}`, "def f(x):\n\treturn {k: v**2 for k, v in x.items()}  # ok\n",
	"<div class=\"a\">\r\n  <p>Text &amp; more</p>\r\n</div>\n", "SELECT * FROM t WHERE a='b' AND c>=12345;", "$ git commit -m 'x' && ls ~/.cache/*.tmp || exit 1",
	"https://example.org/a/b?c=d&e=%20f#g", "🙂👩‍👩‍👧‍👦🏳️‍🌈👍🏽 ❤️ 1️⃣ 🇩🇪", "∑∫√∞ ≠ ≤ ½ ² ₃ Ⅷ ① ㎏ ﬁ Ω Å",
}

// snippets are what patterns of pre-tokenizers treat apart.
var snippets = []string{
	"'", "'s", "'S", "'ll", "'LL", "'re", "'ſ", " ", "  ", "   ", "\n", "\r\n", "\r", "\t", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff",
	"a", "B", "Ab", "aB", "ÀB", "éÉ", "ǅ", "ʰ", "ª", "\u0301", "e\u0301", "A\u030a", "\u093f", "क", "\u0e33", "1", "23", "4567", "½", "٣", "/", "//", "!", "...", "_", "中", "🙂", "\u200d", "ß", "K",
}

// manyTexts are texts of all kinds, the same for each call: sentences as they are, decomposed, mixed and above 8 KiB, snippets, and random
// characters of each block of Unicode.
func manyTexts(n int) []string {
	r := rand.New(rand.NewPCG(16, 0))
	list := append([]string{}, sentences...)
	for _, s := range sentences {
		list = append(list, norm.NFD.String(s), strings.ToUpper(s), norm.NFKD.String(s), strings.ReplaceAll(s, " ", "  "))
	}
	mix := func(from []string, count int) string {
		var b strings.Builder
		for range 1 + r.IntN(count) {
			b.WriteString(from[r.IntN(len(from))])
		}
		return b.String()
	}
	for _, long := range []string{
		strings.Repeat("क्षि।", 3000), strings.Repeat(".\n/", 5000), strings.Repeat("a'", 6000), strings.Repeat("word", 3000) + " end",
		strings.Repeat("中", 9000), strings.Repeat("1234 ", 4000), strings.Repeat(" \n\n ", 3000), "a" + strings.Repeat("\u0323\u0301", 40),
	} {
		list = append(list, long, long+mix(sentences, 60), mix(sentences, 60)+long)
	}
	for range 40 {
		list = append(list, strings.Repeat(mix(sentences, 20), 8), norm.NFD.String(strings.Repeat(mix(sentences, 9), 12)), strings.Repeat(mix(snippets, 30), 100))
	}
	for len(list) < n {
		var block strings.Builder
		base := rune(len(list) * 64 % 0x33480) // up to the last block of ideographs
		if len(list)%50 == 0 {
			base = rune(r.IntN(0x110000)) &^ 63
		}
		for range 1 + r.IntN(24) {
			if c := base + rune(r.IntN(64)); c < 0xd800 || c > 0xdfff {
				block.WriteRune(c)
			}
			if r.IntN(6) == 0 {
				block.WriteString(snippets[r.IntN(len(snippets))])
			}
		}
		marks := "a" + string(base+rune(r.IntN(64))) + string(rune(0x300+r.IntN(0x70))) + string(base+rune(r.IntN(64))) + "\u0334"
		if base >= 0xd7c0 && base < 0xe000 {
			marks = "a\u0301"
		}
		list = append(list, marks, block.String(), mix(snippets, 20), mix(sentences, 3), norm.NFD.String(mix(sentences, 2)), cut(r, mix(sentences, 2)))
	}
	return list[:n]
}

// cut is a part of a text, with whole characters.
func cut(r *rand.Rand, text string) string {
	runes := []rune(text)
	from := r.IntN(len(runes))
	return string(runes[from : from+r.IntN(len(runes)-from)+1])
}

// written reports whether a text has a character of each of some scripts; the generator must not forget one.
func written(texts []string, tables ...*unicode.RangeTable) bool {
	all := strings.Join(texts, "")
	for _, table := range tables {
		if !strings.ContainsFunc(all, func(c rune) bool { return unicode.Is(table, c) }) {
			return false
		}
	}
	return true
}
