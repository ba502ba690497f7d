// Package workload is what works, replica sets and add-ons have in common: the objects
// that they bring to clusters, as a configuration gives them and as the hub has them,
// what is wrong with them, why an agent can't apply them, and how a change of them
// spreads over clusters.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Content is what a configuration, a plan or a state says of a work's objects, in the
// attributes of Table. The work's manifests are those of Manifests, Objects and
// WriteOnly, in this order.
type Content struct {
	Manifests types.List
	Objects   types.Dynamic
	// WriteOnly is null in plans and states.
	WriteOnly types.List
	Version   types.Int64
	// Fields is null in configurations.
	Fields          types.Map
	FieldValidation types.String
	// SensitiveFields are paths of fields that are not to be shown.
	SensitiveFields types.Set
}

// None has no object.
func None() Content {
	return Content{
		Manifests: types.ListNull(types.StringType), WriteOnly: types.ListNull(types.StringType),
		Fields: types.MapNull(FieldsElement()), SensitiveFields: types.SetNull(types.StringType),
	}
}

// Of is the content that a configuration, a plan or a state has.
func Of(ctx context.Context, from crud.Source, diags *diag.Diagnostics) Content {
	var all types.Object
	diags.Append(from.GetAttribute(ctx, path.Empty(), &all)...)
	return ContentOf(all.Attributes())
}

// ContentOf is the content that a plan or a state has.
func ContentOf(values attribute.Values) Content {
	c := None()
	take(values["manifests"], &c.Manifests)
	take(values["objects"], &c.Objects)
	take(values["manifests_wo"], &c.WriteOnly)
	take(values["manifests_wo_version"], &c.Version)
	take(values["fields"], &c.Fields)
	take(values["field_validation"], &c.FieldValidation)
	take(values["sensitive_fields"], &c.SensitiveFields)
	return c
}

func take[V attr.Value](value attr.Value, into *V) {
	if of, ok := value.(V); ok {
		*into = of
	}
}

// keep puts into values what a read or an import changes of the content.
func (c Content) keep(values attribute.Values) {
	values["manifests"], values["objects"], values["fields"] = c.Manifests, c.Objects, c.Fields
}

// Put writes the content into an object of the hub that is about to be written.
// The write-only manifests are in the configuration alone. On the object it notes
// which of its manifests must not be read back, so that an import and a data
// source know it too.
func (c Content) Put(
	ctx context.Context, rules Rules, config crud.Source, object metav1.Object, template *workv1.ManifestsTemplate,
	diags *diag.Diagnostics,
) {
	diags.Append(config.GetAttribute(ctx, path.Root("manifests_wo"), &c.WriteOnly)...)
	if diags.HasError() {
		return
	}
	if err := c.put(rules, object, template); err != nil {
		diags.AddError("Invalid manifest", attribute.Capitalize(err.Error())+".")
	}
}

func (c Content) put(rules Rules, object metav1.Object, template *workv1.ManifestsTemplate) error {
	open, err := c.open()
	if err != nil {
		return err
	}
	closed, err := c.closed()
	if err != nil {
		return err
	}
	if err := rules.fit(slices.Concat(open, closed)); err != nil {
		return err
	}
	template.Manifests = nil
	for _, x := range slices.Concat(open, closed) {
		raw := runtime.RawExtension{Raw: x.JSON}
		template.Manifests = append(template.Manifests, workv1.Manifest{RawExtension: raw})
	}
	if len(closed) == 0 {
		return nil
	}
	var keys []string
	for _, x := range closed {
		keys = append(keys, x.Key())
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("write the annotation %s: %w", work.WriteOnlyAnnotation, err)
	}
	annotations := attribute.OrEmpty(maps.Clone(object.GetAnnotations()))
	annotations[work.WriteOnlyAnnotation] = string(text)
	object.SetAnnotations(annotations)
	return nil
}

// texts are the objects of Manifests. It is ErrUnknown's if anything of them is unknown.
func (c Content) texts() ([]Object, error) {
	if !attribute.Known(c.Manifests) {
		return nil, ErrUnknown
	}
	return ParseAllYAML(attribute.StringList(c.Manifests))
}

// open are the objects that may be read back: those of Manifests and Objects.
// It is ErrUnknown's if anything of them is unknown.
func (c Content) open() ([]Object, error) {
	texts, err := c.texts()
	if err != nil {
		return nil, err
	}
	objects, err := objectManifests(c.Objects)
	if err != nil || c.imported() {
		return texts, err
	}
	return slices.Concat(texts, objects), nil
}

// listed are the objects that fields lists: those of Manifests. What Objects has is shown
// there, by Terraform, which hides what is sensitive in it.
func (c Content) listed() ([]Object, error) {
	texts, err := c.texts()
	shown := c.shown()
	return slices.DeleteFunc(texts, func(x Object) bool { return shown[x.Key()] }), err
}

// shown are the keys of the objects that Objects has, as far as they are known.
func (c Content) shown() map[string]bool {
	keys := map[string]bool{}
	objects, _ := objectManifests(c.Objects)
	for _, x := range objects {
		keys[x.Key()] = true
	}
	return keys
}

// sensitive are the fields that are not to be shown. Paths that are none were refused
// when the configuration was checked.
func (c Content) sensitive() Sensitive {
	s, _ := ParseSensitive(attribute.StringList(c.SensitiveFields))
	return s
}

// imported reports whether the content is that of an import, which can't know in
// which of the two inputs the configuration has the objects: so Manifests has
// them all, and Objects has them too, or none when some may be secret. No
// configuration can say so, for objects must not appear twice.
func (c Content) imported() bool {
	if c.Manifests.IsNull() || isNull(c.Objects) {
		return false
	}
	x, err := c.texts()
	if err != nil || len(x) == 0 {
		return false
	}
	y, err := objectManifests(c.Objects)
	return err == nil && (len(y) == 0 || same(x, y))
}

// closed are the objects of WriteOnly. Errors don't quote them.
func (c Content) closed() ([]Object, error) {
	if !attribute.Known(c.WriteOnly) {
		return nil, ErrUnknown
	}
	objects, err := ParseListYAML("manifests_wo", attribute.StringList(c.WriteOnly))
	return objects, discreet(err)
}

// discreet leaves out of an error what may quote a secret.
func discreet(err error) error {
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return errors.New(strings.Replace(err.Error(), syntax.Error(), syntax.Discreet(), 1))
	}
	return err
}

// version is that of WriteOnly as text.
func (c Content) version() string {
	if c.Version.IsNull() || c.Version.IsUnknown() {
		return ""
	}
	return strconv.FormatInt(c.Version.ValueInt64(), 10)
}

// Planned are the fields of the content that is to follow upon before. They are
// unknown, with ErrUnknown, as long as a part of the content is.
func (c Content) Planned(before Content) (types.Map, error) {
	if _, err := c.open(); err != nil && !errors.Is(err, ErrUnknown) {
		return UnknownFields(), err
	}
	listed, err := c.listed()
	if err != nil || c.SensitiveFields.IsUnknown() {
		return UnknownFields(), ErrUnknown
	}
	was, _ := before.open() // A state that can't be read any more has no versions either.
	past := FieldsFrom(before.Fields)
	fields := ListFields(listed, was, past, c.sensitive())
	if c.WriteOnly.IsNull() {
		return FieldsValue(fields), nil
	}
	closed, err := c.closed()
	switch {
	case err == nil && !c.Version.IsUnknown():
		for _, object := range closed {
			fields.AddWriteOnly(object.Key(), c.version())
		}
	case errors.Is(err, ErrUnknown) && len(past.WriteOnly()) > 0 && c.Version.Equal(before.Version):
		// Values that change with every run, such as those of ephemeral resources, are
		// no reason to write them again. The version is.
		for key := range past.WriteOnly() {
			fields.AddWriteOnly(key, before.version())
		}
	case err != nil:
		return UnknownFields(), err
	default:
		return UnknownFields(), ErrUnknown
	}
	return FieldsValue(fields), nil
}

// Keeping is the content to plan after before: in before's wording where it means
// the same.
func (c Content) Keeping(before Content) Content {
	if before.imported() && (c.isEmpty() || c.sameAs(before)) {
		c.Manifests, c.Objects = before.Manifests, before.Objects
		return c
	}
	if SameManifests(c.Manifests, before.Manifests) {
		c.Manifests = before.Manifests
	}
	if sameObjects(c.Objects, before.Objects) {
		c.Objects = before.Objects
	}
	return c
}

func (c Content) sameAs(other Content) bool {
	x, err := c.open()
	if err != nil {
		return false
	}
	y, err := other.open()
	return err == nil && same(x, y)
}

// Same reports whether two plans or states bring the same objects to clusters. Of
// the write-only ones only the versions are compared.
func (c Content) Same(other Content) bool {
	return c.sameAs(other) && !c.Fields.IsUnknown() &&
		maps.Equal(FieldsFrom(c.Fields).WriteOnly(), FieldsFrom(other.Fields).WriteOnly())
}

// isEmpty reports whether no input has an object.
func (c Content) isEmpty() bool {
	k := c.read(discreet)
	return k.count == 0 && !k.unknown
}
