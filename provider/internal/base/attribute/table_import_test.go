package attribute

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type ownsNothing struct{}

func (ownsNothing) None() bool              { return true }
func (ownsNothing) Has(...string) bool      { return false }
func (ownsNothing) Keys(...string) []string { return nil }

// A field that is left to others is read where it is set, and imported where its rule says
// so. Reserved labels are never imported.
func TestFieldsThatAreLeftToOthers(t *testing.T) {
	table := func(imports bool) Table[*metav1.ObjectMeta] {
		return Table[*metav1.ObjectMeta]{
			LabelsField[*metav1.ObjectMeta]("Labels.").Reserved(func(key string) string {
				return map[string]string{"set": "use the attribute set"}[key]
			}),
			Text("set", Optional("Set."), func(m *metav1.ObjectMeta) *string { return &m.GenerateName }).
				LeftToOthers(func(Owned, *metav1.ObjectMeta) bool { return imports }),
		}
	}
	live := &metav1.ObjectMeta{GenerateName: "theirs", Labels: map[string]string{"team": "shop", "set": "theirs"}}
	for name, x := range map[string]struct{ was, want attr.Value }{
		"left out":  {types.StringNull(), types.StringNull()},
		"set":       {types.StringValue("mine"), types.StringValue("theirs")},
		"set alike": {types.StringValue("theirs"), types.StringValue("theirs")},
	} {
		values, own := Values{"set": x.was}, &metav1.ObjectMeta{}
		table(false).Write(values, own)
		if table(false).Observe(values, own, live); !values["set"].Equal(x.want) {
			t.Errorf("%s: observed %s, want %s", name, values["set"], x.want)
		}
		if paths := table(false).Unwanted(own, live); len(paths) > 0 {
			t.Errorf("%s: unwanted %v", name, paths)
		}
	}
	for imports, want := range map[bool]attr.Value{true: types.StringValue("theirs"), false: types.StringNull()} {
		values := table(imports).Import(ownsNothing{}, live)
		labels, _ := values["labels"].(types.Map)
		if got := StringMap(labels); len(got) != 1 || got["team"] != "shop" || !values["set"].Equal(want) {
			t.Errorf("imported %v and %s, want %s", got, values["set"], want)
		}
	}
}
