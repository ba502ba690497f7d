package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// maxChanges is how many changes are named of one object, and maxValue how long a
	// value may be, in bytes.
	maxChanges = 100
	maxValue   = 256
	// maxAnswer is how large an answer may be, in bytes.
	maxAnswer = 256 << 10
	// masked stands for a value that is not shown.
	masked = `"(masked)"`
)

// changes are the fields in which two states of an object differ, in the order of their
// paths, and how many more there are. What the server keeps of an object is left out.
func changes(before, after *unstructured.Unstructured) ([]v1alpha1.FieldChange, int32) {
	if after == nil {
		return nil, 0
	}
	d := differences{isSecret: manifest.IsCore(after, "Secret")}
	d.compare("", visible(before), visible(after), false)
	more := max(0, len(d.found)-maxChanges)
	return d.found[:len(d.found)-more], int32(more)
}

// serverFields are the fields of the metadata that the server sets.
var serverFields = []string{
	"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink", "deletionTimestamp",
}

// visible is an object without its status, without what the server sets, and without the
// owners that works are.
func visible(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "status")
	fields, _ := out["metadata"].(map[string]any)
	if fields = maps.Clone(fields); fields == nil {
		fields = map[string]any{}
	}
	for _, f := range serverFields {
		delete(fields, f)
	}
	owners, _ := fields["ownerReferences"].([]any)
	owners = slices.DeleteFunc(slices.Clone(owners), func(owner any) bool {
		ref, _ := owner.(map[string]any)
		return ref["kind"] == "AppliedManifestWork" && ref["apiVersion"] == workv1.GroupVersion.String()
	})
	if fields["ownerReferences"] = owners; len(owners) == 0 {
		delete(fields, "ownerReferences")
	}
	out["metadata"] = fields
	return out
}

// differences gathers the changes of one object.
type differences struct {
	isSecret bool
	found    []v1alpha1.FieldChange
}

// compare compares the values of a field. secret says that they are to be masked.
func (d *differences) compare(path string, before, after any, secret bool) {
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if wasMap && isMap {
		d.compareMaps(path, was, is, secret)
		return
	}
	wasList, wasA := before.([]any)
	isList, isA := after.([]any)
	if wasA && isA {
		d.compareLists(path, wasList, isList, secret)
		return
	}
	if !apiequality.Semantic.DeepEqual(before, after) {
		d.add(path, before, after, secret)
	}
}

func (d *differences) compareMaps(path string, before, after map[string]any, secret bool) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := before[k]
		is, has := after[k]
		at, hidden := join(path, k), secret || d.hides(path, k, before, after)
		switch {
		case had && has:
			d.compare(at, was, is, hidden)
		case had:
			d.add(at, was, absent{}, hidden)
		default:
			d.add(at, absent{}, is, hidden)
		}
	}
}

// absent is the value of a field that there is not.
type absent struct{}

// compareLists compares lists by the names of their items, or, where these have none, by
// their places.
func (d *differences) compareLists(path string, before, after []any, secret bool) {
	was, namedBefore := byName(before)
	is, namedAfter := byName(after)
	if namedBefore && namedAfter {
		for _, item := range after {
			name := nameOf(item)
			if old, had := was[name]; had {
				d.compare(path+"["+name+"]", old, item, secret)
			} else {
				d.add(path+"["+name+"]", absent{}, item, secret)
			}
		}
		for _, item := range before {
			if name := nameOf(item); is[name] == nil {
				d.add(path+"["+name+"]", item, absent{}, secret)
			}
		}
		return
	}
	for i := range max(len(before), len(after)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(after):
			d.add(at, before[i], absent{}, secret)
		case i >= len(before):
			d.add(at, absent{}, after[i], secret)
		default:
			d.compare(at, before[i], after[i], secret)
		}
	}
}

// byName are the items of a list by name; ok is false unless each has one of its own.
func byName(list []any) (items map[string]any, ok bool) {
	items = make(map[string]any, len(list))
	for _, item := range list {
		name := nameOf(item)
		if name == "" || items[name] != nil {
			return nil, false
		}
		items[name] = item
	}
	return items, true
}

func nameOf(item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// join is the path of a field in a map.
func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, `."[]/ `):
		return path + `["` + strings.ReplaceAll(key, `"`, `\"`) + `"]`
	case path == "":
		return key
	}
	return path + "." + key
}

var (
	// private are names of fields, and of environment variables, whose values are secret,
	// and notPrivate those of fields that only refer to such values.
	private    = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token|credential|(private|api|access).?key)`)
	notPrivate = regexp.MustCompile(`(Name|Namespace|Ref|Class|Path|Mode|Policy|Seconds|Version)$`)
)

// hides reports whether the value of a field is not to be shown: the content of a Secret,
// what is called a password or the like, and copies of whole manifests.
func (d *differences) hides(path, key string, maps ...map[string]any) bool {
	switch {
	case d.isSecret && path == "" && (key == "data" || key == "stringData"):
		return true
	case path == "metadata.annotations":
		return strings.HasSuffix(key, "last-applied-configuration") || private.MatchString(key)
	}
	for _, m := range maps {
		if key == "value" && private.MatchString(nameOf(m)) {
			return true
		}
		if _, isText := m[key].(string); isText && private.MatchString(key) && !notPrivate.MatchString(key) {
			return true
		}
	}
	return false
}

func (d *differences) add(path string, before, after any, secret bool) {
	d.found = append(d.found, v1alpha1.FieldChange{
		Path: text.Cut(path, limits.PreviewText),
		From: d.show(path, before, secret), To: d.show(path, after, secret),
	})
}

// show is a value as JSON, with what is secret in it masked; empty when there is none.
func (d *differences) show(path string, value any, secret bool) string {
	switch {
	case value == absent{}:
		return ""
	case secret:
		return masked
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(d.mask(path, value)) != nil {
		return masked // of what was read as JSON, which always can be
	}
	return text.Cut(strings.TrimSuffix(out.String(), "\n"), maxValue)
}

// mask is a value without what is secret in it.
func (d *differences) mask(path string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for k, v := range value {
			if d.hides(path, k, value) {
				out[k] = "(masked)"
			} else {
				out[k] = d.mask(join(path, k), v)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = d.mask(path+"[]", v)
		}
		return out
	}
	return value
}

// summary counts the outcomes, in the order in which they are declared.
func summary(objects []v1alpha1.ObjectPreview) string {
	counts := map[v1alpha1.PreviewOutcome]int{}
	for _, o := range objects {
		counts[o.Outcome]++
	}
	var parts []string
	for _, x := range []struct {
		outcome v1alpha1.PreviewOutcome
		words   string
	}{
		{v1alpha1.PreviewCreate, "to create"},
		{v1alpha1.PreviewChange, "to change"},
		{v1alpha1.PreviewRecreate, "to re-create"},
		{v1alpha1.PreviewDelete, "to delete"},
		{v1alpha1.PreviewRelease, "to release"},
		{v1alpha1.PreviewConflict, "in conflict"},
		{v1alpha1.PreviewRefused, "refused"},
		{v1alpha1.PreviewUnknown, "unknown"},
		{v1alpha1.PreviewUnchanged, "unchanged"},
	} {
		if n := counts[x.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, x.words))
		}
	}
	if len(parts) == 0 {
		return "no objects"
	}
	return strings.Join(parts, ", ")
}

// fit are the objects for which there is room in an answer, and how many more there are.
// What would happen goes before what stays as it is, and changes are left out first.
func fit(objects []v1alpha1.ObjectPreview) ([]v1alpha1.ObjectPreview, int32) {
	const maxObjects = 2000
	size := func() int {
		data, _ := json.Marshal(objects) // of a type of the API, which always can be
		return len(data)
	}
	for _, most := range []int{20, 3, 0} {
		if size() <= maxAnswer {
			break
		}
		for i := range objects {
			if o := &objects[i]; len(o.Changes) > most {
				o.MoreChanges += int32(len(o.Changes) - most)
				o.Changes = o.Changes[:most]
			}
		}
	}
	all := len(objects)
	if all > maxObjects || size() > maxAnswer {
		objects = slices.DeleteFunc(objects, func(o v1alpha1.ObjectPreview) bool {
			return o.Outcome == v1alpha1.PreviewUnchanged
		})
	}
	for len(objects) > maxObjects || size() > maxAnswer {
		objects = objects[:min(maxObjects, len(objects)*9/10)]
	}
	return objects, int32(all - len(objects))
}
