package sharing

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// schemaCodec decodes as the codec of a custom resource does whose schema has no field
// "unknown", a default for "spec.defaulted" of kind Defaulted, and another version of kind Converted.
type schemaCodec struct {
	runtime.Codec
	mu      sync.Mutex
	decoded int
}

func (c *schemaCodec) Decode(
	data []byte, _ *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decoded++
	u, ok := into.(*unstructured.Unstructured)
	switch {
	case into == nil:
		u = &unstructured.Unstructured{}
	case !ok:
		return nil, nil, fmt.Errorf("a %T is not for custom resources", into)
	}
	u.Object = nil
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return nil, nil, err
	}
	prune(u.Object)
	switch u.GetKind() {
	case "Defaulted":
		if spec, ok := u.Object["spec"].(map[string]any); ok && spec["defaulted"] == nil {
			spec["defaulted"] = "default"
		}
	case "Converted":
		u.SetAPIVersion("example.org/v2")
	}
	if u.GetGeneration() == 0 {
		u.SetGeneration(1)
	}
	gvk := u.GroupVersionKind()
	return u, &gvk, nil
}

func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "unknown")
		for _, e := range v {
			prune(e)
		}
	case []any:
		for _, e := range v {
			prune(e)
		}
	}
}

// read decodes for a watch, and compares with what the other codec says.
func read(t *testing.T, c *Codec, data string) (*unstructured.Unstructured, bool) {
	t.Helper()
	other := c.Codec.(*schemaCodec)
	before := other.decoded
	got, gvk, err := c.Decode([]byte(data), nil, nil)
	asked := other.decoded > before
	want, wantGVK, wantErr := other.Decode([]byte(data), nil, nil)
	if (err == nil) != (wantErr == nil) || err == nil && (!reflect.DeepEqual(got, want) || *gvk != *wantGVK) {
		t.Fatalf("%s became %v, %v and %v, want %v, %v and %v", data, got, gvk, err, want, wantGVK, wantErr)
	}
	u, _ := got.(*unstructured.Unstructured)
	return u, asked
}

func example(kind, spec string) string {
	const metadata = `{"name":"a","generation":2,"labels":{"x":"y"}}`
	return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":%q,"metadata":%s,"spec":%s}`, kind, metadata, spec)
}

// The other codec is asked about each shape once, and always about what it changes.
func TestWhatIsReadAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		asked         bool // about the second
	}{
		"the same": {example("A", `{"a":"b"}`), example("A", `{"a":"b"}`), false},
		"other values": {
			example("A", `{"a":"b","n":1,"f":1.5,"t":true}`),
			example("A", `{"a":"\"\u00e4\\","n":-5,"f":2e3,"t":false}`), false,
		},
		"an int64":     {example("A", `{"a":1}`), example("A", `{"a":9007199254740993}`), false},
		"more items":   {example("A", `{"a":[{"b":1}]}`), example("A", `{"a":[{"b":2},{"b":3}]}`), false},
		"other order":  {example("A", `{"a":1,"b":"c"}`), example("A", `{"b":"c","a":1}`), false},
		"a new field":  {example("A", `{"a":"b"}`), example("A", `{"a":"b","unknown":"d"}`), true},
		"a field less": {example("A", `{"a":"b","c":"d"}`), example("A", `{"a":"b"}`), true},
		"a field in an item": {
			example("A", `{"a":[{"b":1}]}`), example("A", `{"a":[{"b":1},{"b":1,"unknown":1}]}`), true,
		},
		"an item of a kind":     {example("A", `{"a":[1]}`), example("A", `{"a":[1,"1"]}`), true},
		"a null":                {example("A", `{"a":"b"}`), example("A", `{"a":null}`), true},
		"a number":              {example("A", `{"a":"1"}`), example("A", `{"a":1}`), true},
		"a zero":                {example("A", `{"a":1}`), example("A", `{"a":0}`), true},
		"a float":               {example("A", `{"a":1}`), example("A", `{"a":1.0}`), true},
		"a number beyond int64": {example("A", `{"a":1}`), example("A", `{"a":9223372036854775808}`), true},
		"a list":                {example("A", `{"a":{}}`), example("A", `{"a":[]}`), true},
		"another kind":          {example("A", `{"a":"b"}`), example("B", `{"a":"b"}`), true},
		"another kind in it":    {example("A", `{"m":{"kind":"X"}}`), example("A", `{"m":{"kind":"Y"}}`), true},
		"another version in it": {
			example("A", `{"m":{"apiVersion":"v1"}}`), example("A", `{"m":{"apiVersion":"v2"}}`), true,
		},
		"pruned":    {example("A", `{"unknown":"b"}`), example("A", `{"unknown":"b"}`), true},
		"a default": {example("Defaulted", `{}`), example("Defaulted", `{}`), true},
		"no default": {
			example("Defaulted", `{"defaulted":"x"}`), example("Defaulted", `{"defaulted":"y"}`), false,
		},
		"converted": {example("Converted", `{}`), example("Converted", `{}`), true},
		"no generation": {
			`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`,
			`{"apiVersion":"v1","kind":"A","metadata":{"name":"b"}}`, true,
		},
		"no metadata":           {`{"apiVersion":"v1","kind":"A"}`, `{"apiVersion":"v1","kind":"A"}`, true},
		"another label":         {example("A", `{}`), strings.Replace(example("A", `{}`), `"x":`, `"z":`, 1), true},
		"metadata in a spec":    {example("A", `{"metadata":{"a":"b"}}`), example("A", `{"metadata":"x"}`), true},
		"spec as a string":      {example("A", `"x"`), example("A", `"y"`), false},
		"a field that is twice": {example("A", `{"a":"b"}`), example("A", `{"a":"b","a":"c"}`), true},
		"a spec that is twice": {
			example("A", `{"a":"b"}`),
			strings.Replace(example("A", `{"a":"b"}`), `"spec"`, `"spec":{"a":"c"},"spec"`, 1), true,
		},
		"invalid UTF-8":       {example("A", `{"a":"b"}`), example("A", "{\"a\":\"\xff\"}"), true},
		"metadata no object":  {example("A", `{}`), `{"apiVersion":"v1","kind":"A","metadata":"x"}`, true},
		"no object":           {example("A", `{}`), `[]`, true},
		"nothing":             {example("A", `{}`), ``, true},
		"cut off":             {example("A", `{}`), example("A", `{}`)[:40], true},
		"something behind it": {example("A", `{}`), example("A", `{}`) + "x", true},
		"a space behind it":   {example("A", `{}`), example("A", `{}`) + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			codec := NewCodec(&schemaCodec{}, NewTable())
			if _, asked := read(t, codec, c.first); !asked {
				t.Error("an unknown shape was read at once")
			}
			if _, asked := read(t, codec, c.second); asked != c.asked {
				t.Errorf("the other codec was asked about the second: %t, want %t", asked, c.asked)
			}
		})
	}
}

// What is read into an object may be changed, so it has nothing that others have.
func TestWhatIsReadIntoAnObjectIsItsOwn(t *testing.T) {
	c := NewCodec(&schemaCodec{}, NewTable())
	data := example("A", `{"a":{"b":"c"}}`)
	watched, _ := read(t, c, data)
	again, asked := read(t, c, data)
	if at(t, watched, "spec") != at(t, again, "spec") || asked {
		t.Error("what watches read is in memory twice")
	}
	if at(t, watched, "metadata") == at(t, again, "metadata") {
		t.Error("two objects have one metadata, in which the store puts a version")
	}
	other := c.Codec.(*schemaCodec)
	into := func(kind string) *unstructured.Unstructured {
		own := &unstructured.Unstructured{}
		own.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: kind})
		o, gvk, err := c.Decode([]byte(data), nil, own)
		if err != nil || o != runtime.Object(own) || gvk.Kind != "A" || !reflect.DeepEqual(own.Object, watched.Object) {
			t.Fatalf("got %v, %v and %v", o, gvk, err)
		}
		return own
	}
	for i, kind := range []string{"A", "A", "B", "A"} {
		before := other.decoded
		own := into(kind)
		if asked, want := other.decoded > before, i == 0 || kind != "A"; asked != want {
			t.Errorf("time %d: the other codec was asked: %t, want %t", i, asked, want)
		}
		for _, path := range [][]string{{"spec", "a", "b"}, {"metadata", "labels", "x"}} {
			if err := unstructured.SetNestedField(own.Object, "changed", path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if again, _ := read(t, c, data); at(t, again, "spec") != at(t, watched, "spec") {
		t.Error("reading into an object has changed what is shared")
	}
	if _, _, err := c.Decode([]byte(data), nil, &metav1.Status{}); err == nil {
		t.Error("an object was read into one of another type")
	}
}

// A fleet has any number of shapes, as keys of labels may be anything.
func TestACodecForgetsShapes(t *testing.T) {
	c := NewCodec(&schemaCodec{}, NewTable())
	for i := range shapesKept {
		read(t, c, example("A", fmt.Sprintf(`{"x%d":"y"}`, i)))
	}
	if n := len(c.watched.known); n > shapesKept+10 {
		t.Errorf("%d shapes are remembered", n)
	}
	read(t, c, example("A", `{"a":"b"}`))
	if _, asked := read(t, c, example("A", `{"a":"b"}`)); asked {
		t.Error("no shape is learnt any more")
	}
}

// Users choose the names of fields. A field that is nested in fields of the same name, many
// times over, is read twice at most, and not once for each level.
func TestNothingIsReadManyTimes(t *testing.T) {
	const deep = 3000
	inner := strings.Repeat(`{"fieldsV1":`, deep) + `{"spec":{}}` + strings.Repeat(`}`, deep)
	for _, field := range []string{"spec", "status"} {
		table := NewTable()
		data := fmt.Appendf(nil, `{"metadata":{"fieldsV1":%s},%q:%s}`, inner, field, inner)
		if _, err := table.read(data); err != nil {
			t.Fatal(err)
		}
		wholes := 0
		for _, v := range table.young {
			if _, ok := v.(*whole); ok {
				wholes++
			}
		}
		if wholes > 2 {
			t.Errorf("%d values in %s are known by their JSON", wholes, field)
		}
	}
}

// A store decodes several events at once.
func TestACodecIsSafeForConcurrentUse(t *testing.T) {
	c := NewCodec(&schemaCodec{}, NewTable())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				spec := fmt.Sprintf(`{"x%d":{"y":"%d"}}`, i%10, i%7)
				o, _, err := c.Decode([]byte(example("A", spec)), nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := json.Marshal(o.(*unstructured.Unstructured).Object["spec"])
				if err != nil || string(got) != spec {
					t.Errorf("%s became %s, %v", spec, got, err)
				}
			}
		})
	}
	all.Wait()
}

// What is read is what another decoder of JSON says, or an error.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0,0.0,1e400,"\ud800",null,{"b":{}}],"metadata":{"a":{"a":[]}}}`,
		`{"a":{"metadata":[[],[[]]]}}`, ` {} `, `{"":""}`,
	} {
		f.Add(s)
	}
	table := NewTable()
	f.Fuzz(func(t *testing.T, data string) {
		var want map[string]any
		wantErr := utiljson.Unmarshal([]byte(data), &want)
		got, err := table.read([]byte(data))
		if err == nil && (wantErr != nil || !reflect.DeepEqual(got.Object, want)) {
			t.Errorf("%q became %v, want %v, %v", data, got, want, wantErr)
		}
	})
}
