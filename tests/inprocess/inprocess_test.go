package inprocess

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/zclconf/go-cty/cty"
)

const small = "resource \"toy_thing\" \"x\" {\n  name = \"x\"\n}\n"

// step does one step with a provider, and returns why it has failed.
func step(t *testing.T, provider *toy, steps ...resource.TestStep) string {
	t.Helper()
	s := &stepper{tf: &Terraform{Providers: provider.factory(), State: NewState()}}
	for _, one := range steps {
		if err := s.do(t.Context(), one); err != nil {
			return err.Error()
		}
	}
	return ""
}

func TestFaultsOfAProviderAreFound(t *testing.T) {
	reads := int64(0)
	for want, provider := range map[string]*toy{
		"": {},
		"Provider produced inconsistent result after apply": {apply: func(_, planned map[string]cty.Value) map[string]cty.Value {
			planned["name"] = cty.StringVal("y")
			return planned
		}},
		`the provider still indicated an unknown value for seen`: {apply: func(_, planned map[string]cty.Value) map[string]cty.Value {
			planned["seen"] = cty.UnknownVal(cty.String)
			return planned
		}},
		"Provider produced invalid plan": {plan: func(_, proposed, _ map[string]cty.Value) map[string]cty.Value {
			proposed["tags"] = cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")})
			return proposed
		}},
		"the non-refresh plan was not empty": {plan: func(_, proposed, _ map[string]cty.Value) map[string]cty.Value {
			proposed["seen"] = cty.UnknownVal(cty.String)
			return proposed
		}},
		"the refresh plan was not empty": {
			read: func(state map[string]cty.Value) map[string]cty.Value {
				reads++
				state["size"] = cty.NumberIntVal(reads)
				return state
			},
			plan: func(prior, proposed, _ map[string]cty.Value) map[string]cty.Value {
				if prior != nil && !prior["size"].RawEquals(cty.NumberIntVal(3)) {
					proposed["size"] = cty.NumberIntVal(3)
				}
				return proposed
			},
		},
		"a write-only attribute is planned": {plan: func(_, proposed, config map[string]cty.Value) map[string]cty.Value {
			proposed["once"] = cty.StringVal("kept")
			return proposed
		}},
		"Provider produced inconsistent final plan": {plan: func() func(_, proposed, _ map[string]cty.Value) map[string]cty.Value {
			plans := int64(100)
			return func(_, proposed, _ map[string]cty.Value) map[string]cty.Value {
				plans++
				proposed["size"] = cty.NumberIntVal(plans)
				return proposed
			}
		}()},
	} {
		t.Run(want, func(t *testing.T) {
			if got := step(t, provider, resource.TestStep{Config: small}); want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestAFaultLeavesAnObjectTainted(t *testing.T) {
	provider := &toy{apply: func(_, planned map[string]cty.Value) map[string]cty.Value {
		planned["name"] = cty.StringVal("y")
		return planned
	}}
	w := NewWorkspace(t, provider.factory())
	if said, ok := w.Apply(small); ok {
		t.Error(said)
	}
	provider.apply = nil
	if said := w.Plan(small); !strings.Contains(said, "toy_thing.x is tainted, so it must be replaced") ||
		!strings.Contains(said, "Plan: 1 to add, 0 to change, 1 to destroy.") {
		t.Error(said)
	}
}

func TestPlansSayWhatChanges(t *testing.T) {
	before := `resource "toy_thing" "x" {
  name   = "x"
  secret = "hunter2"
  tags   = { a = "1", b = "2" }
  parts  = [{ key = "k" }, { key = "l" }]
}`
	after := `resource "toy_thing" "x" {
  name   = "x"
  secret = "hunter3"
  tags   = { a = "1", b = "3" }
  parts  = [{ key = "m" }]
  timeouts {
    create = "1m"
  }
}
resource "toy_thing" "other" {
  name = "other-${toy_thing.x.seen}"
}`
	w := NewWorkspace(t, (&toy{}).factory())
	if said, ok := w.Apply(before); !ok || !strings.Contains(said, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.") {
		t.Fatal(said)
	}
	if said := w.Plan(before); !strings.Contains(said, "No changes.") {
		t.Error(said)
	}
	said := w.Plan(after)
	for _, want := range []string{
		"# toy_thing.x will be updated in-place", `~ "b" = "2" -> "3"`, "~ secret = (sensitive value)", `~ key = "k" -> "m"`,
		`- { - key = "l" -> null } -> null`, `+ timeouts { + create = "1m" }`, "# toy_thing.other will be created",
		`+ name = "other-made"`, "+ seen = (known after apply)", "Plan: 1 to add, 1 to change, 0 to destroy.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not in %s", want, said)
		}
	}
	if strings.Contains(said, "hunter") {
		t.Error(said)
	}
	said = w.Plan(strings.Replace(before, `"x"`+"\n", `"y"`+"\n", 1))
	for _, want := range []string{"# toy_thing.x must be replaced", `~ name = "x" -> "y" # forces replacement`, "1 to add, 0 to change, 1 to destroy"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not in %s", want, said)
		}
	}
}

func TestObjectsComeAndGoInTheirOrder(t *testing.T) {
	did := []string{}
	w := NewWorkspace(t, (&toy{did: &did}).factory())
	config := `
locals {
  first = toy_thing.first.name
}
data "toy_thing" "between" {
  name = toy_thing.first.name == "first" ? "between" : ""
}
resource "toy_thing" "last" {
  name = "last-${data.toy_thing.between.seen}"
}
resource "toy_thing" "first" {
  name = "first"
}
resource "toy_thing" "some" {
  for_each = toset(["a"])
  name     = "${local.first}-${each.key}"
}
output "last" {
  value = toy_thing.last.name
}
`
	if said, ok := w.Apply(config); !ok || !strings.Contains(said, `last = "last-read"`) {
		t.Fatal(said)
	}
	before := func(a, b string) {
		t.Helper()
		if i, j := slices.Index(did, a), slices.Index(did, b); i < 0 || j < 0 || i > j {
			t.Errorf("%s is not before %s in %q", a, b, did)
		}
	}
	before("write first", "read between")
	before("read between", "write last-read")
	before("write first", "write first-a")
	if said, ok := w.Destroy(); !ok || !strings.Contains(said, "Destroy complete! Resources: 3 destroyed.") {
		t.Fatal(said)
	}
	before("delete last-read", "delete first")
	before("delete first-a", "delete first")
}

func TestMistakesAreSaid(t *testing.T) {
	for config, want := range map[string]string{
		"resource \"toy_thing\" \"x\" {\n}":                      "Missing required argument",
		"resource \"toy_other\" \"x\" {\n}":                      "Invalid resource type",
		small + "output \"x\" { value = toy_thing.y.name }":      "Reference to undeclared resource",
		small + "output \"x\" { value = toy_thing.x.nothing }":   "Unsupported attribute",
		small + "module \"x\" { source = \"./x\" }":              "A module block needs a real Terraform",
		"resource \"toy_thing\" \"x\" {\n  name = nothing(1)\n}": "Call to unknown function",
		"resource \"toy_thing\" \"x\" {\n  name = toy_thing.y.seen\n}\nresource \"toy_thing\" \"y\" {\n  name = toy_thing.x.seen\n}":                                                  "Cycle: ",
		"resource \"toy_thing\" \"x\" {\n  name = \"x\"\n  lifecycle {\n    postcondition {\n      condition     = self.size > 5\n      error_message = \"too small\"\n    }\n  }\n}": "Resource postcondition failed",
		"resource \"toy_thing\" \"x\" {\n  name = \"x\"\n  secret = \"y\"\n}\noutput \"x\" { value = toy_thing.x.secret }":                                                            "Output refers to sensitive values",
	} {
		w := NewWorkspace(t, (&toy{}).factory())
		said, ok := w.Apply(config)
		if ok || !strings.Contains(said, want) {
			t.Errorf("%s: got %s, want %s", config, said, want)
		}
	}
}

func TestWarningsAreSaidOnceWithTheirPlace(t *testing.T) {
	w := NewWorkspace(t, (&toy{warn: "Watch out"}).factory())
	said := w.Plan(small + strings.ReplaceAll(small, "x", "y"))
	for _, want := range []string{
		`on main.tf line 2, in resource "toy_thing" "x": 2: name = "x"`, "(and one more similar warning elsewhere)",
	} {
		if !strings.Contains(said, want) && !strings.Contains(strings.NewReplacer(`"y"`, `"x"`, "line 5", "line 2", "5:", "2:").Replace(said), want) {
			t.Errorf("%s is not in %s", want, said)
		}
	}
	if count := strings.Count(said, "Warning: Watch out"); count != 1 {
		t.Errorf("it is said %d times: %s", count, said)
	}
}

func TestWhatANestedObjectHasComputedIsKept(t *testing.T) {
	s := thingSchema()
	object := func(size, parts cty.Value) cty.Value {
		null := cty.NullVal(cty.String)
		return cty.ObjectVal(map[string]cty.Value{
			"name": cty.StringVal("x"), "size": size, "seen": null, "secret": null, "once": null,
			"tags": cty.NullVal(cty.Map(cty.String)), "parts": parts, "timeouts": cty.NullVal(s.fields["timeouts"].kind),
		})
	}
	part := func(key string, id cty.Value) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(key), "id": id})
	}
	null := cty.NullVal(cty.String)
	prior := object(cty.NumberIntVal(3), cty.ListVal([]cty.Value{part("a", cty.StringVal("1")), part("b", cty.StringVal("2"))}))
	config := object(cty.NullVal(cty.Number), cty.ListVal([]cty.Value{part("a", null), part("c", null), part("d", null)}))
	want := object(cty.NumberIntVal(3), cty.ListVal([]cty.Value{
		part("a", cty.StringVal("1")), part("c", cty.StringVal("2")), part("d", null),
	}))
	if got := s.propose(prior, config); !got.RawEquals(want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
}
