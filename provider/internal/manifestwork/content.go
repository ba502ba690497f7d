package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// workContent is what a configuration, a plan or a state says of a work's
// objects. The work's manifests are those of Manifests, Objects and WriteOnly,
// in this order.
type workContent struct {
	Manifests types.List
	Objects   types.Dynamic
	// WriteOnly is null in plans and states.
	WriteOnly types.List
	Version   types.Int64
	// Fields is null in configurations.
	Fields types.Map
}

func noContent() workContent {
	return workContent{
		Manifests: types.ListNull(types.StringType), Objects: types.DynamicNull(), WriteOnly: types.ListNull(types.StringType),
		Version: types.Int64Null(), Fields: types.MapNull(FieldsElement()),
	}
}

// getter is a configuration, a plan or a state.
type getter interface {
	GetAttribute(ctx context.Context, at path.Path, target any) diag.Diagnostics
}

func contentOf(ctx context.Context, from getter, diags *diag.Diagnostics) workContent {
	var c workContent
	diags.Append(from.GetAttribute(ctx, path.Root("manifests"), &c.Manifests)...)
	diags.Append(from.GetAttribute(ctx, path.Root("objects"), &c.Objects)...)
	diags.Append(from.GetAttribute(ctx, path.Root("manifests_wo"), &c.WriteOnly)...)
	diags.Append(from.GetAttribute(ctx, path.Root("manifests_wo_version"), &c.Version)...)
	diags.Append(from.GetAttribute(ctx, path.Root("fields"), &c.Fields)...)
	return c
}

// open are the objects that may be read back: those of Manifests and Objects.
// It is errUnknown's if anything of them is unknown.
func (c workContent) open() ([]manifest.Object, error) {
	if !attribute.Known(c.Manifests) {
		return nil, errUnknown
	}
	texts, err := manifest.ParseAll(attribute.StringList(c.Manifests))
	if err != nil {
		return nil, err
	}
	objects, err := objectManifests(c.Objects)
	if err != nil {
		return nil, err
	}
	if len(texts) > 0 && manifest.Equal(texts, objects) {
		return texts, nil // See imported.
	}
	return slices.Concat(texts, objects), nil
}

// imported reports whether Manifests and Objects hold the same objects. They do
// after an import, which can't know in which of the two the configuration has
// them. No configuration can say so, for objects must not appear twice.
func (c workContent) imported() bool { return sameContent(c.Manifests, c.Objects) }

func sameContent(list types.List, objects types.Dynamic) bool {
	if list.IsNull() || isNull(objects) || !attribute.Known(list) {
		return false
	}
	x, err := manifest.ParseAll(attribute.StringList(list))
	if err != nil {
		return false
	}
	y, err := objectManifests(objects)
	return err == nil && manifest.Equal(x, y)
}

// closed are the objects of WriteOnly. Errors don't quote them.
func (c workContent) closed() ([]manifest.Object, error) {
	if !attribute.Known(c.WriteOnly) {
		return nil, errUnknown
	}
	objects, err := manifest.ParseList("manifests_wo", attribute.StringList(c.WriteOnly))
	return objects, discreet(err)
}

// discreet leaves out of an error what may quote a secret.
func discreet(err error) error {
	var syntax *manifest.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is neither YAML nor JSON (the parser's message is withheld, because it might quote a secret; try the same in manifests with harmless values)")
	}
	return err
}

// version is that of WriteOnly as text.
func (c workContent) version() string {
	if c.Version.IsNull() || c.Version.IsUnknown() {
		return ""
	}
	return strconv.FormatInt(c.Version.ValueInt64(), 10)
}

// fields are the fields of the content that is to follow upon before.
func (c workContent) fields(before workContent) (types.Map, error) {
	open, err := c.open()
	if err != nil {
		return UnknownFields(), err
	}
	was, err := before.open()
	if err != nil {
		was = nil // A state that can't be read any more has no versions either.
	}
	past := FieldsOf(before.Fields)
	fields := manifest.FieldsOf(open, was, past)
	if c.WriteOnly.IsNull() {
		return FieldsValue(fields), nil
	}
	closed, err := c.closed()
	switch {
	case err == nil && !c.Version.IsUnknown():
		for _, object := range closed {
			fields.AddWriteOnly(object.Key(), c.version())
		}
	case errors.Is(err, errUnknown) && len(past.WriteOnly()) > 0 && c.Version.Equal(before.Version):
		// Values that change with every run, such as those of ephemeral resources, are
		// no reason to write them again. The version is.
		for _, key := range past.WriteOnly() {
			fields.AddWriteOnly(key, before.version())
		}
	case err != nil:
		return UnknownFields(), err
	default:
		return UnknownFields(), errUnknown
	}
	return FieldsValue(fields), nil
}

// keeping is the content to plan after before: in before's wording where it means
// the same.
func (c workContent) keeping(before workContent) workContent {
	sameTexts := SameManifests(c.Manifests, before.Manifests)
	sameValues := sameObjects(c.Objects, before.Objects)
	imported := before.imported()
	if sameTexts || (c.Manifests.IsNull() && sameValues && imported) {
		c.Manifests = before.Manifests
	}
	if sameValues || (isNull(c.Objects) && sameTexts && imported) {
		c.Objects = before.Objects
	}
	return c
}

// observe brings the content up to date with what the hub has, and keeps its
// wording where it means the same.
func (c *workContent) observe(object *workv1.ManifestWork) error {
	before := *c
	open, hidden, err := liveManifests(object, FieldsOf(c.Fields).WriteOnly())
	if err != nil {
		return err
	}
	if mine, err := c.open(); err != nil || !manifest.Equal(mine, open) {
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
// there, and the rest in Manifests.
func (c *workContent) adopt(live []manifest.Object) error {
	if c.imported() {
		return c.adoptTwice(live)
	}
	mine, err := objectManifests(c.Objects)
	if err != nil {
		mine = nil // A state that can't be read any more differs.
	}
	var texts, values []manifest.Object
	for _, object := range live {
		isMine := slices.ContainsFunc(mine, func(x manifest.Object) bool { return x.Key() == object.Key() })
		if isMine || (c.Manifests.IsNull() && !isNull(c.Objects)) {
			values = append(values, object)
		} else {
			texts = append(texts, object)
		}
	}
	if own, err := manifest.ParseAll(attribute.StringList(c.Manifests)); err != nil || !manifest.Equal(own, texts) {
		if c.Manifests, err = ManifestTexts(texts); err != nil {
			return err
		}
	}
	if !isNull(c.Objects) && !manifest.Equal(mine, values) {
		c.Objects, err = hclObjects(values)
		return err
	}
	return nil
}

// adoptTwice is adopt for an import: see imported.
func (c *workContent) adoptTwice(live []manifest.Object) error {
	texts, err := ManifestTexts(live)
	if err != nil {
		return err
	}
	values, err := hclObjects(live)
	if err != nil {
		return err
	}
	c.Manifests, c.Objects = texts, values
	return nil
}

func (c *workContent) observedFields(before workContent, hidden []manifest.Object) types.Map {
	open, err := c.open()
	if err != nil {
		return c.Fields
	}
	was, err := before.open()
	if err != nil {
		was = nil
	}
	fields := manifest.FieldsOf(open, was, FieldsOf(before.Fields))
	for _, object := range hidden {
		fields.AddWriteOnly(object.Key(), c.version())
	}
	return FieldsValue(fields)
}

// Fields as a value of Terraform's, there and back.
