package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// CheckOptions finds what is wrong with manifest_configs of a configuration, as far
// as it is known: options for objects that the work does not have, and more of
// them than a hub admits.
func CheckOptions(ctx context.Context, from crud.Source, content workload.Content, diags *diag.Diagnostics) {
	var list types.List
	root := path.Root("manifest_configs")
	diags.Append(from.GetAttribute(ctx, root, &list)...)
	objects, complete := content.Known()
	options := optionsOf(list)
	for i, element := range list.Elements() {
		option, _ := element.(types.Object)
		id := option.Attributes()["resource_identifier"]
		// Without objects there is an error already, or they are those of an import.
		if !complete || len(objects) == 0 || id == nil || !attribute.Known(id) {
			continue
		}
		at := root.AtListIndex(i).AtName("resource_identifier")
		if problem := unmatched(options[i].ResourceIdentifier, objects); problem != "" {
			diags.AddAttributeError(at, "Options for no object",
				fmt.Sprintf("%s: the work has no such object. %s", at, problem))
		}
	}
	if !attribute.Known(list) {
		return
	}
	// Paths that can't be read are reported where they are.
	if err := workcheck.Options("manifest_configs", options); err != nil && !errors.Is(err, workcheck.ErrPath) {
		diags.AddAttributeError(root, "Too many options", "The hub would refuse the work: "+err.Error()+".")
	}
}

// optionsOf are options of a configuration, as far as they are known.
func optionsOf(list attr.Value) []workv1.ManifestConfigOption {
	var spec workv1.ManifestWorkSpec
	Options("spec", func(s workSpec) workSpec { return s }, "").
		Write(attribute.Values{"manifest_configs": list}, &spec)
	return spec.ManifestConfigs
}

// unmatched says what to do about an identifier that means none of the objects; it
// is empty for one that may mean some. What a pattern finds is left to it, and so
// are the plural names of kinds that are not Kubernetes' own.
func unmatched(id workv1.ResourceIdentifier, objects []workload.Object) string {
	if strings.Contains(id.Name+id.Namespace, "*") {
		return ""
	}
	var near *workload.Object
	for i, object := range objects {
		plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
		sameName := object.Name == id.Name && object.Namespace == id.Namespace
		sameKind := object.Group() == id.Group && (!known || plural == id.Resource)
		if sameName && sameKind {
			return ""
		}
		similar := strings.EqualFold(object.Kind, id.Resource) || strings.EqualFold(object.Kind+"s", id.Resource) ||
			plural == id.Resource
		if sameName && (near == nil || similar) || near == nil && sameKind && (known || object.Name == id.Name) {
			near = &objects[i]
		}
	}
	if near == nil {
		return "Name one of its objects, or remove the option."
	}
	return fmt.Sprintf("Did you mean %s? Its identifier is %s.", near, identifierText(*near))
}

// identifierText is the identifier of an object, as a configuration has it.
func identifierText(object workload.Object) string {
	plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
	if !known {
		plural = strings.ToLower(object.Kind) + "s"
	}
	var parts []string
	for _, part := range [][2]string{
		{"group", object.Group()}, {"resource", plural}, {"namespace", object.Namespace}, {"name", object.Name},
	} {
		if part[1] != "" {
			parts = append(parts, fmt.Sprintf("%s = %q", part[0], part[1]))
		}
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
