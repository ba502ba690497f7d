package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Live is the content as the hub has it.
type Live struct {
	Manifests []workv1.Manifest
	// Annotations are those of the object that has the manifests.
	Annotations map[string]string
}

// Read are the objects of a work: those that may be read, and those that its
// annotation or the caller says are not to be.
func (l Live) Read(writeOnly []string) (open, hidden []Object, err error) {
	noted := WriteOnlyOf(l.Annotations)
	for i, x := range l.Manifests {
		parsed, err := ObjectFromJSON(x.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("read manifest %d on the hub: %w", i, err)
		}
		if key := parsed.Key(); slices.Contains(writeOnly, key) || slices.Contains(noted, key) {
			hidden = append(hidden, parsed)
		} else {
			open = append(open, parsed)
		}
	}
	return open, hidden, nil
}

// WriteOnlyOf are the keys of the objects that must not be read back, as the
// annotations of their work say. Text that can't be read says nothing.
func WriteOnlyOf(annotations map[string]string) []string {
	var keys []string
	if err := json.Unmarshal([]byte(annotations[work.WriteOnlyAnnotation]), &keys); err != nil {
		return nil
	}
	return keys
}

// IsWriteOnly reports whether an object that an agent reports on must not be read
// back, as the annotations of its work say.
func IsWriteOnly(annotations map[string]string, reported workv1.ManifestResourceMeta) bool {
	return slices.Contains(WriteOnlyOf(annotations), keyOf(reported))
}

// Import is the content of a work that no configuration of this state has written
// yet: see imported.
func Import(live Live) (Content, error) {
	content := None()
	open, hidden, err := live.Read(nil)
	if err == nil && len(open) > 0 {
		err = content.adoptTwice(open)
	}
	if err == nil {
		content.Fields = content.observedFields(None(), hidden)
	}
	return content, err
}

// Observe brings the content up to date with what the hub has, and keeps its
// wording where it means the same.
func (c *Content) Observe(live Live) error {
	before := *c
	open, hidden, err := live.Read(slices.Collect(maps.Keys(FieldsFrom(c.Fields).WriteOnly())))
	if err != nil {
		return err
	}
	if mine, err := c.open(); err != nil || !same(mine, open) {
		if err := c.adopt(open); err != nil {
			return err
		}
	}
	if fields := c.observedFields(before, hidden); !fields.Equal(c.Fields) {
		c.Fields = fields
	}
	return nil
}

// adopt takes over live objects: those that Objects has under the same names
// there, and the rest in Manifests. What may be secret and was written by
// somebody else goes to Manifests, for plans show Objects.
func (c *Content) adopt(live []Object) error {
	if c.imported() {
		return c.adoptTwice(live)
	}
	mine, _ := objectManifests(c.Objects) // A state that can't be read any more differs.
	var texts, values []Object
	for _, object := range live {
		i := slices.IndexFunc(mine, func(x Object) bool { return x.Key() == object.Key() })
		onlyObjects := c.Manifests.IsNull() && !isNull(c.Objects)
		foreign := i < 0 || !EqualObjects(mine[i:i+1], []Object{object})
		if (i >= 0 || onlyObjects) && (!foreign || !object.MayBeSecret()) {
			values = append(values, object)
		} else {
			texts = append(texts, object)
		}
	}
	own, err := ParseAllYAML(attribute.StringList(c.Manifests))
	if err != nil || !same(own, texts) {
		if c.Manifests, err = Texts(texts); err != nil {
			return err
		}
	}
	if !isNull(c.Objects) && !same(mine, values) {
		c.Objects, err = hclObjects(values)
	}
	return err
}

// adoptTwice is adopt for an import: see imported.
func (c *Content) adoptTwice(live []Object) error {
	shown := live
	if slices.ContainsFunc(live, Object.MayBeSecret) {
		shown = nil
	}
	texts, err := Texts(live)
	values, problem := hclObjects(shown)
	if err := errors.Join(err, problem); err != nil {
		return err
	}
	c.Manifests, c.Objects = texts, values
	return nil
}

func (c *Content) observedFields(before Content, hidden []Object) types.Map {
	listed, err := c.listed()
	if err != nil {
		return c.Fields
	}
	// An object of Objects that somebody else has made secret is in Manifests, as it is now.
	shown := before.shown()
	listed = slices.DeleteFunc(listed, func(x Object) bool { return shown[x.Key()] })
	was, _ := before.open()
	fields := ListFields(listed, was, FieldsFrom(before.Fields), c.sensitive())
	for _, object := range hidden {
		fields.AddWriteOnly(object.Key(), c.version())
	}
	return FieldsValue(fields)
}
