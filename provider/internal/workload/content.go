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
	"github.com/hashicorp/terraform-plugin-framework/resource"
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
	closed, err := c.of("manifests_wo")
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

// reading is an object of an input, or why there is none.
type reading struct {
	object Object
	// err is ErrUnknown for what will be known after apply. It quotes nothing that is
	// write-only.
	err error
	// input is the attribute; at and place say where in it the object is, for Terraform
	// and in words.
	input string
	at    path.Path
	place string
}

// read goes through some inputs, and through all if none is named.
func (c Content) read(inputs ...string) []reading {
	var all []reading
	for _, input := range []string{"manifests", "objects", "manifests_wo"} {
		if len(inputs) > 0 && !slices.Contains(inputs, input) {
			continue
		}
		whole := reading{input: input, at: path.Root(input), place: input}
		switch input {
		case "manifests":
			all = append(all, whole.texts(c.Manifests)...)
		case "objects":
			all = append(all, whole.values(c.Objects)...)
		default:
			all = append(all, whole.texts(c.WriteOnly)...)
		}
	}
	return all
}

// texts are the objects of a list of YAML.
func (r reading) texts(list types.List) []reading {
	if list.IsUnknown() {
		return []reading{r.failed(ErrUnknown)}
	}
	var all []reading
	for i, element := range list.Elements() {
		one := r
		one.at, one.place = r.at.AtListIndex(i), fmt.Sprintf("%s[%d]", r.input, i)
		text, ok := element.(types.String)
		if !ok || text.IsUnknown() {
			all = append(all, one.failed(ErrUnknown))
			continue
		}
		objects, err := ParseYAML(text.ValueString())
		if err != nil {
			all = append(all, one.failed(err))
		}
		place := one.place
		for _, object := range objects {
			if one.object = object; object.Document > 0 {
				one.place = fmt.Sprintf("%s, document %d", place, object.Document)
			}
			all = append(all, one)
		}
	}
	return all
}

// values are the objects in HCL.
func (r reading) values(objects types.Dynamic) []reading {
	if isNull(objects) {
		return nil
	}
	list, ok := objects.UnderlyingValue().(attribute.Elements)
	if !ok || list.IsUnknown() {
		value, err := JSONValue(objects)
		if err == nil {
			err = fmt.Errorf("it is %s and not a list of objects; put a single object in brackets", jsonTypeOf(value))
		}
		return []reading{r.failed(err)}
	}
	var all []reading
	for i, element := range list.Elements() {
		value, err := JSONValue(element)
		if err == nil {
			r.object, err = NewObject(value)
		}
		r.place = fmt.Sprintf("%s[%d]", r.input, i)
		all = append(all, r.failed(err))
	}
	return all
}

func (r reading) failed(err error) reading {
	if r.err = err; r.input == "manifests_wo" {
		r.err = discreet(err)
	}
	return r
}

// of are the objects of some inputs. It is ErrUnknown's if anything of them is unknown.
func (c Content) of(inputs ...string) ([]Object, error) {
	var objects []Object
	for _, r := range c.read(inputs...) {
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", r.place, r.err)
		}
		objects = append(objects, r.object)
	}
	return objects, nil
}

// Known are the objects of a configuration that are known, and whether there are no
// others.
func (c Content) Known() (objects []Object, complete bool) {
	complete = true
	for _, r := range c.read() {
		if r.err == nil {
			objects = append(objects, r.object)
		}
		complete = complete && r.err == nil
	}
	return objects, complete
}

// open are the objects that may be read back: those of Manifests and Objects.
// It is ErrUnknown's if anything of them is unknown.
func (c Content) open() ([]Object, error) {
	if c.imported() {
		return c.of("manifests")
	}
	return c.of("manifests", "objects")
}

// listed are the objects that fields lists: those of Manifests. What Objects has is shown
// there, by Terraform, which hides what is sensitive in it.
func (c Content) listed() ([]Object, error) {
	texts, err := c.of("manifests")
	shown := c.shown()
	return slices.DeleteFunc(texts, func(x Object) bool { return shown[x.Key()] }), err
}

// shown are the keys of the objects that Objects has, as far as they are known.
func (c Content) shown() map[string]bool {
	keys := map[string]bool{}
	objects, _ := c.of("objects")
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
	x, err := c.of("manifests")
	if err != nil || len(x) == 0 {
		return false
	}
	y, err := c.of("objects")
	return err == nil && (len(y) == 0 || same(x, y))
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
	closed, err := c.of("manifests_wo")
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
	if before.imported() && (len(c.read()) == 0 || c.sameAs(before)) {
		c.Manifests, c.Objects = before.Manifests, before.Objects
		return c
	}
	if sameIn("manifests", c, before) {
		c.Manifests = before.Manifests
	}
	if sameIn("objects", c, before) {
		c.Objects = before.Objects
	}
	return c
}

// sameIn reports whether an input of two contents has objects, known and the same.
func sameIn(input string, a, b Content) bool {
	x, errX := a.of(input)
	y, errY := b.of(input)
	return errX == nil && errY == nil && len(x) > 0 && same(x, y)
}

func (c Content) sameAs(other Content) bool {
	x, errX := c.open()
	y, errY := other.open()
	return errX == nil && errY == nil && same(x, y)
}

// same reports whether two lists have the same objects, in any order: agents order
// them themselves.
func same(a, b []Object) bool {
	sorted := func(objects []Object) []Object {
		return slices.SortedStableFunc(slices.Values(objects), func(x, y Object) int {
			return strings.Compare(x.Key(), y.Key())
		})
	}
	return EqualObjects(sorted(a), sorted(b))
}

// Same reports whether two plans or states bring the same objects to clusters. Of
// the write-only ones only the versions are compared.
func (c Content) Same(other Content) bool {
	return c.sameAs(other) && !c.Fields.IsUnknown() &&
		maps.Equal(FieldsFrom(c.Fields).WriteOnly(), FieldsFrom(other.Fields).WriteOnly())
}

// What is decided of the content while planning.

// Plan keeps the objects' old wording where the new one means the same, and lists
// their fields. It reports whether the objects change.
func Plan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	before := None()
	planned := Of(ctx, req.Config, &resp.Diagnostics)
	creating := req.State.Raw.IsNull()
	if !creating {
		before = Of(ctx, req.State, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return false
	}
	switch empty := len(planned.read()) == 0; {
	case empty && !before.imported():
		resp.Diagnostics.AddError("No object", noObject)
		return false
	case empty:
		resp.Diagnostics.AddWarning("Objects that the configuration does not have",
			"The configuration has neither manifests nor objects nor manifests_wo, so the objects stay as they were "+
				"imported. Terraform leaves out of generated configuration what may be secret: add the objects to "+
				"manifests or manifests_wo.")
	}
	planned = planned.Keeping(before)
	fields, err := planned.Planned(before)
	if err != nil && !errors.Is(err, ErrUnknown) {
		resp.Diagnostics.AddError("Invalid manifest", attribute.Capitalize(err.Error())+".")
		return false
	}
	planned.Fields = fields
	same := !creating && planned.Same(before)
	if same && planned.SensitiveFields.Equal(before.SensitiveFields) && planned.Manifests.Equal(before.Manifests) {
		fields = before.Fields // As it was read, also by earlier versions.
	}
	planned.Fields = fields
	values := attribute.Values{}
	planned.keep(values)
	for name, value := range values {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
	return !same
}

// PlanReports plans what is only known after the write: the generation, when the
// specification changes, and whether the wait is met, when one is due. What is reported
// stays as it was read last, unless the apply waits for other reports. Attributes in
// current say something of the present specification, so that none of an earlier one stays.
func PlanReports(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
	respecified bool, reported []string, current ...string,
) {
	var waits, waited types.Object
	var was types.Bool
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	creating := req.State.Raw.IsNull()
	if !creating {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("wait"), &waited)...)
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &was)...)
		crud.KeepReported(req, resp, slices.Concat([]string{"ready", "generation"}, reported, current)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	unmet := !was.IsNull() && !was.ValueBool()
	var open []string
	if respecified {
		open = append(current, "generation")
	}
	switch {
	case waits.IsNull():
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), types.BoolNull())...)
	case respecified || unmet || !waits.Equal(waited):
		open = append(open, "ready")
	}
	if creating || (respecified || unmet) && !waits.IsNull() {
		open = slices.Concat(open, reported, current)
	}
	crud.PlanUnknown(resp, open...)
}
