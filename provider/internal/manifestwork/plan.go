package manifestwork

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// What is checked and decided of a work while planning.

// ValidateConfig checks the objects of all inputs together: what the hub or the
// agent would refuse later.
func (r *manifestWorkResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	content := contentOf(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(content.check()...)
}

// ModifyPlan keeps the objects' old wording where the new one means the same,
// lists their fields, and plans a wait where one is due.
func (r *manifestWorkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var waits types.Object
	var was types.Bool
	before := noContent()
	planned := contentOf(ctx, req.Config, &resp.Diagnostics)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	creating := req.State.Raw.IsNull()
	if !creating {
		before = contentOf(ctx, req.State, &resp.Diagnostics)
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &was)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	planned = planned.keeping(before)
	fields, err := planned.fields(before)
	if err != nil && !errors.Is(err, errUnknown) {
		resp.Diagnostics.AddError("Invalid manifest", attribute.Capitalize(err.Error())+".")
		return
	}
	set := func(attribute string, value any) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(attribute), value)...)
	}
	set("manifests", planned.Manifests)
	set("objects", planned.Objects)
	set("fields", fields)
	reports := []struct {
		attribute string
		element   types.ObjectType
	}{{"conditions", WorkConditionType()}, {"feedback", feedbackType()}}
	if !creating {
		set("ready", was)
		for _, report := range reports {
			var value types.List
			resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(report.attribute), &value)...)
			set(report.attribute, value)
		}
		unmet := !waits.IsNull() && !was.IsNull() && !was.ValueBool()
		if !unmet && resp.Plan.Raw.Equal(req.State.Raw) {
			return
		}
	}
	ready := types.BoolUnknown()
	if waits.IsNull() {
		ready = types.BoolNull()
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model manifestWorkModel
		diags.Append(from.Get(ctx, &model)...)
		object := model.withSecrets(ctx, req.Config, diags)
		return model.owned(object), !diags.HasError()
	})
	set("ready", ready)
	for _, report := range reports {
		set(report.attribute, types.ListUnknown(report.element))
	}
}

// ManifestsValidator checks manifests while planning, where there are no other
// inputs.
type ManifestsValidator struct{ attribute.Described }

// ValidateList implements validator.List.
func (ManifestsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if req.ConfigValue.IsUnknown() || len(req.ConfigValue.Elements()) == 0 {
		return
	}
	content := noContent()
	content.Manifests = req.ConfigValue
	resp.Diagnostics.Append(content.check()...)
}

// check finds what is wrong with the content as far as it is known.
func (c workContent) check() diag.Diagnostics {
	k := &checker{}
	k.texts("manifests", c.Manifests, func(err error) error { return err })
	k.objects(c.Objects)
	k.texts("manifests_wo", c.WriteOnly, discreet)
	if k.count == 0 && !k.unknown && !k.diags.HasError() {
		k.diags.AddError("No object", "A work needs at least one object: set at least one of manifests, objects and manifests_wo, and put an object in it.")
	}
	if i := manifest.Duplicate(k.found); i >= 0 {
		k.diags.AddAttributeError(k.places[i], "Duplicate manifest", attribute.Capitalize(duplicate(k.found[i]).Error())+".")
	}
	if err := fitsLimit(manifest.Size(k.found)); err != nil {
		k.diags.AddError("Too large", attribute.Capitalize(err.Error())+".")
	}
	return k.diags
}

// checker goes through the inputs of a work.
type checker struct {
	diags diag.Diagnostics
	// found are the objects that can be read, and where each stands.
	found  []manifest.Object
	places []path.Path
	// count is that of all elements, known or not; unknown tells of inputs whose
	// elements are not known.
	count   int
	unknown bool
}

func (k *checker) texts(attribute string, list types.List, tell func(error) error) {
	k.unknown = k.unknown || list.IsUnknown()
	for i, element := range list.Elements() {
		k.count++
		text, ok := element.(types.String)
		if !ok || text.IsUnknown() {
			continue
		}
		parsed, err := manifest.Parse(text.ValueString())
		at := path.Root(attribute).AtListIndex(i)
		if err != nil {
			k.invalid(at, tell(err))
			continue
		}
		k.add(at, parsed...)
	}
}

func (k *checker) objects(objects types.Dynamic) {
	if isNull(objects) {
		return
	}
	if isUnknown(objects) {
		k.unknown = true
		return
	}
	root := path.Root("objects")
	list, err := listed(objects)
	if err != nil {
		k.invalid(root, err)
		return
	}
	for i, element := range list {
		k.count++
		object, err := objectManifest(element)
		switch {
		case errors.Is(err, errUnknown):
		case err != nil:
			k.invalid(root, fmt.Errorf("objects[%d]: %w", i, err))
		default:
			k.add(root, object)
		}
	}
}

func (k *checker) invalid(at path.Path, err error) {
	k.diags.AddAttributeError(at, "Invalid manifest", fmt.Sprintf("The manifest can't be applied: %s.", err))
}

func (k *checker) add(at path.Path, objects ...manifest.Object) {
	for _, object := range objects {
		k.found, k.places = append(k.found, object), append(k.places, at)
	}
}

// fits checks what only all objects of a work together show.
func fits(objects []manifest.Object) error {
	if len(objects) == 0 {
		return fmt.Errorf("the work has no object; set at least one of manifests, objects and manifests_wo")
	}
	if i := manifest.Duplicate(objects); i >= 0 {
		return duplicate(objects[i])
	}
	return fitsLimit(manifest.Size(objects))
}

// duplicate is the error of an object that appears a second time.
func duplicate(object manifest.Object) error {
	return fmt.Errorf("%s appears twice, so the two would overwrite each other; remove one of them", object)
}

func fitsLimit(size int) error {
	if size <= work.DefaultManifestLimit {
		return nil
	}
	return fmt.Errorf("the manifests take %d bytes, more than the %d that a hub accepts in one work; divide them among several works", size, work.DefaultManifestLimit)
}
