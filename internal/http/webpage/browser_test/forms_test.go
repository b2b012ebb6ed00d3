package browser

import (
	"fmt"
	"testing"
)

// TestSchemasBecomeForms compares the forms of JSON Schemas: the kind, and for some kinds the
// content.
func TestSchemasBecomeForms(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(h.url, desktop, high)
	for _, c := range []struct{ name, schema, want string }{
		{"a text", `{"type":"string"}`, `string`},
		{"a whole number", `{"type":"integer"}`, `integer`},
		{"a number", `{"type":"number"}`, `number`},
		{"yes or no", `{"type":"boolean"}`, `boolean`},
		{"one of some values", `{"enum":["a",1,null]}`, `enum`},
		{"one value only is fixed", `{"enum":["a"]}`, `const`},
		{"a constant is fixed", `{"const":{"a":1}}`, `const`},
		{"a list", `{"type":"array","items":{"type":"integer"}}`, `array(integer)`},
		{"a list of anything", `{"type":"array"}`, `array(any)`},
		{"a tuple is edited as JSON", `{"type":"array","prefixItems":[{"type":"string"}]}`, `any`},
		{"an object", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"]}`, `object(a!:string,b:boolean)`},
		{"an object without a type", `{"properties":{"a":{"type":"string"}}}`, `object(a:string)`},
		{"an object of unknown members is edited as JSON", `{"type":"object"}`, `any`},
		{"an object that must be empty", `{"type":"object","additionalProperties":false}`, `object()`},
		{"a type or null", `{"type":["string","null"]}`, `string`},
		{"a schema or null", `{"anyOf":[{"type":"null"},{"type":"object","properties":{"x":{"type":"number"}}}]}`, `object(x:number)`},
		{"a required schema or null", `{"type":"object","required":["x"],"properties":{"x":{"type":["string","null"]}}}`, `object(x!:any)`},
		{"null is fixed", `{"type":"null"}`, `const`},
		{"one variant", `{"oneOf":[{"type":"integer"}]}`, `integer`},
		{"several variants are edited as JSON", `{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `any`},
		{"a reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/pose"}},"$defs":{"pose":{"type":"object","properties":{"tilt":{"type":"number"}}}}}`, `object(p:object(tilt:number))`},
		{"a reference to nowhere is edited as JSON", `{"$ref":"#/$defs/none"}`, `any`},
		{"a reference to elsewhere is edited as JSON", `{"$ref":"https://example.org/schema"}`, `any`},
		{"a circle ends", `{"$ref":"#"}`, `any`},
		{"a schema inside of itself ends", `{"type":"object","properties":{"next":{"$ref":"#"}}}`, `*`},
		{"parts are merged", `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"number"}}}]}`, `object(a!:string,b:number)`},
		{"everything is allowed", `true`, `any`},
		{"nothing is said", `{}`, `any`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := eval[string](g, fmt.Sprintf(`await import("/assets/js/schema.js").then(({ read }) => {
				const show = f => f.kind + (
					f.kind === "array" ? "(" + show(f.items) + ")" :
					f.kind === "object" ? "(" + f.fields.map(x => x.name + (x.required ? "!" : "") + ":" + show(x)) + ")" : "");
				return show(read(%s));
			})`, c.schema))
			if got != c.want && c.want != "*" {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestNumbersKeepTheirSpelling: an agent's 1.0 and a 64-bit id come back
// unchanged from a form.
func TestNumbersKeepTheirSpelling(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(h.url, desktop, high)
	const text = `{"a":1.0,"b":12345678901234567890,"c":[1e400,-0.10],"d":7}`
	got := eval[string](g, fmt.Sprintf(`await import("/assets/json.js").then(({ parse, clone }) => JSON.stringify(clone(parse(%q))))`, text))
	if got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
}

func TestFreeFormFieldsStartEmpty(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(h.url, desktop, high)
	got := eval[string](g, `await Promise.all([import("/assets/js/form.js"), import("/assets/js/schema.js")]).then(([{ field }, { read }]) => {
		const schema = { properties: { map: { type: "object" }, either: { anyOf: [{ type: "integer" }, { type: "string" }] }, list: { type: "array" } } };
		let value;
		const row = field(read(schema), { name: "x", path: [], onchange: (next) => { value = next; } });
		for (const add of ["map", "either", "list", "Add an item"]) all(".chip", row).find((c) => label(c) === add).click();
		const areas = all("textarea", row);
		const before = areas.map((a) => a.value).join();
		areas[0].value = '{"a":1}';
		areas[0].dispatchEvent(new Event("input"));
		return before + JSON.stringify(value);
	})`)
	if want := `,,{"map":{"a":1},"list":[null]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
