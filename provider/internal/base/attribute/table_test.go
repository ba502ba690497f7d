package attribute_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

type part struct {
	Name   string
	Labels map[string]string
}

type thing struct {
	Title  string
	Order  string
	Count  *int32
	Names  []string
	Labels map[string]string
	Part   part
	State  string
}

// table has one attribute of each sort.
func table() attribute.Table[*thing] {
	return attribute.Table[*thing]{
		attribute.Text("title", attribute.Optional("A title."), func(t *thing) *string { return &t.Title }),
		attribute.Text("order", attribute.Optional("An order."), func(t *thing) *string { return &t.Order }).
			Standard(types.StringValue("ByName")),
		attribute.NumberPointer("how_many", schema.Int64Attribute{Optional: true},
			func(t *thing) **int32 { return &t.Count }),
		attribute.TextSet("names", schema.SetAttribute{Optional: true}, func(t *thing) *[]string { return &t.Names }),
		attribute.TextMap("labels", schema.MapAttribute{Optional: true},
			func(t *thing) *map[string]string { return &t.Labels }).
			At("metadata.labels").BesideOthers(),
		attribute.Object("part", schema.SingleNestedAttribute{Optional: true}, func(t *thing) *part { return &t.Part },
			attribute.Text("name", attribute.Required("A name."), func(p *part) *string { return &p.Name }),
			attribute.TextMap("labels", schema.MapAttribute{Optional: true},
				func(p *part) *map[string]string { return &p.Labels }).
				BesideOthers()).At("spec.component"),
		attribute.Local[*thing]("wait", schema.BoolAttribute{Optional: true}),
		attribute.Reported("state", attribute.TextAttribute("A state."),
			func(t *thing) types.String { return types.StringValue(t.State) }),
	}
}

// owned are the places that the provider has written.
type owned []string

func (o owned) None() bool { return len(o) == 0 }

func (o owned) Has(path ...string) bool { return slices.Contains(o, path[len(path)-1]) }

func (o owned) Keys(...string) []string { return o }

func texts(pairs ...string) types.Map {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return attribute.StringMapValue(m)
}

func partOf(name string, labels types.Map) types.Object {
	return types.ObjectValueMust(
		map[string]attr.Type{"name": types.StringType, "labels": types.MapType{ElemType: types.StringType}},
		map[string]attr.Value{"name": types.StringValue(name), "labels": labels})
}

// What a read makes of the state, and what contradicts it.
func TestTableObserves(t *testing.T) {
	none := types.MapNull(types.StringType)
	for name, x := range map[string]struct {
		prior    attribute.Values
		change   func(live *thing)
		want     attribute.Values
		unwanted [][]string
	}{
		"an empty set is none": {
			prior: attribute.Values{"names": attribute.StringSetValue(nil)},
			want:  attribute.Values{"names": attribute.StringSetValue(nil)},
		},
		"the standard value is none": {
			change: func(live *thing) { live.Order = "ByName" },
			want:   attribute.Values{"order": types.StringNull()},
		},
		"the standard value stays where it is set": {
			prior:  attribute.Values{"order": types.StringValue("ByName")},
			change: func(live *thing) { live.Order = "" },
			want:   attribute.Values{"order": types.StringValue("ByName")},
		},
		"somebody sets what is left out": {
			change:   func(live *thing) { live.Title = "theirs" },
			want:     attribute.Values{"title": types.StringValue("theirs")},
			unwanted: [][]string{{"spec", "title"}},
		},
		"another order is the same set": {
			prior:  attribute.Values{"names": attribute.StringSetValue([]string{"a", "b"})},
			change: func(live *thing) { live.Names = []string{"b", "a"} },
			want:   attribute.Values{"names": attribute.StringSetValue([]string{"a", "b"})},
		},
		"a name that was added": {
			prior:    attribute.Values{"names": attribute.StringSetValue([]string{"a"})},
			change:   func(live *thing) { live.Names = []string{"b", "a"} },
			want:     attribute.Values{"names": attribute.StringSetValue([]string{"a", "b"})},
			unwanted: [][]string{{"spec", "names"}},
		},
		"labels of others": {
			prior:  attribute.Values{"labels": texts("a", "1")},
			change: func(live *thing) { live.Labels["b"] = "2" },
			want:   attribute.Values{"labels": texts("a", "1")},
		},
		"labels of others in a nested object": {
			prior:  attribute.Values{"part": partOf("x", texts("a", "1"))},
			change: func(live *thing) { live.Part.Labels["b"] = "2" },
			want:   attribute.Values{"part": partOf("x", texts("a", "1"))},
		},
		"a nested object changes": {
			prior:    attribute.Values{"part": partOf("x", none)},
			change:   func(live *thing) { live.Part = part{Name: "y", Labels: map[string]string{"b": "2"}} },
			want:     attribute.Values{"part": partOf("y", none)},
			unwanted: [][]string{{"spec", "component"}},
		},
		"a nested object is gone": {
			prior:    attribute.Values{"part": partOf("x", none)},
			change:   func(live *thing) { live.Part = part{} },
			want:     attribute.Values{"part": attribute.Null(partOf("", none).Type(t.Context()))},
			unwanted: [][]string{{"spec", "component"}},
		},
		"what is local and what is reported": {
			prior:  attribute.Values{"wait": types.BoolValue(true), "state": types.StringValue("old")},
			change: func(live *thing) { live.State = "new" },
			want:   attribute.Values{"wait": types.BoolValue(true), "state": types.StringValue("new")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := attribute.Values{}
			for name, value := range x.prior {
				values[name] = value
			}
			own, live := &thing{}, &thing{}
			table().Write(values, own)
			table().Write(values, live)
			if x.change != nil {
				x.change(live)
			}
			if got := table().Unwanted(own, live); !reflect.DeepEqual(got, x.unwanted) {
				t.Errorf("unwanted %v, want %v", got, x.unwanted)
			}
			table().Observe(values, own, live)
			for name, want := range x.want {
				if !values[name].Equal(want) {
					t.Errorf("%s is %s, want %s", name, values[name], want)
				}
			}
		})
	}
}

// An import takes over what says something, and what the provider has written.
func TestTableImports(t *testing.T) {
	live := &thing{
		Title: "title", Order: "ByName", Labels: map[string]string{"mine": "1", "theirs": "2"}, State: "new",
	}
	for name, x := range map[string]struct {
		owned owned
		want  attribute.Values
	}{
		"of nobody's": {nil, attribute.Values{
			"title": types.StringValue("title"), "order": types.StringNull(),
			"labels": texts("mine", "1", "theirs", "2"), "state": types.StringValue("new"),
		}},
		"of its own": {owned{"order", "mine"}, attribute.Values{
			"title": types.StringValue("title"), "order": types.StringValue("ByName"), "labels": texts("mine", "1"),
		}},
	} {
		got := table().Import(x.owned, live)
		for attribute, want := range x.want {
			if !got[attribute].Equal(want) {
				t.Errorf("%s: %s is %s, want %s", name, attribute, got[attribute], want)
			}
		}
		if !got["wait"].IsNull() || !got["how_many"].IsNull() || !got["part"].IsNull() {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestTableNamesThePlacesOfItsFields(t *testing.T) {
	want := map[string]string{"metadata.labels": "labels", "spec.component": "part"}
	if got := table().Places(); !reflect.DeepEqual(got, want) {
		t.Errorf("places are %v, want %v", got, want)
	}
	if got := table().Unwritten(); !slices.Equal(got, []string{"wait", "state"}) {
		t.Errorf("unwritten are %v", got)
	}
}
