package addon

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// The configurations that an add-on is told to use, in a placement or in a cluster.

// configsField is the attribute configs. description says what they are for.
func configsField[P any](description string, at func(P) *[]v1alpha1.AddOnConfig) attribute.Field[P] {
	return attribute.Objects("configs", attribute.OptionalObjects(description, validConfigs()), at,
		attribute.Text("group", configGroupAttribute(), func(c *v1alpha1.AddOnConfig) *string { return &c.Group }),
		attribute.Text("resource", configResourceAttribute(),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Resource }),
		attribute.Text("namespace", attribute.Optional("Namespace of the object. Leave it out for kinds that have "+
			"none, such as `"+addon.TemplateResource+"`.",
			attribute.ValidName("namespace")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Namespace }),
		attribute.Text("name",
			attribute.Required("Name of the object.", attribute.ValidObjectName("configuration name")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Name }))
}

// configGroupAttribute is the API group of a configuration's kind.
func configGroupAttribute() schema.StringAttribute {
	return attribute.Defaulted("API group of the configuration's kind, and `\"\"` for the core group. Defaults to "+
		"`"+addon.GroupName+"`.", addon.GroupName, validGroup())
}

// configResourceAttribute is the plural name of a configuration's kind.
func configResourceAttribute() schema.StringAttribute {
	return attribute.Required("Plural name of the configuration's kind, in lower case, such as "+
		"`"+addon.TemplateResource+"` or `"+addon.DeploymentConfigResource+"`.", validResource())
}

// validGroup admits API groups, the core group included.
func validGroup() validator.String {
	return attribute.Fitting("Invalid API group",
		"an API group such as addon.open-cluster-management.io, without a version, or \"\" for the core group",
		func(text string) bool {
			return text == "" || !apiVersion.MatchString(text) && len(validation.IsDNS1123Subdomain(text)) == 0
		},
		func(text string) string {
			group, version, found := strings.Cut(text, "/")
			switch {
			case apiVersion.MatchString(text):
				return "Write \"\" for the core group."
			case found:
				return fmt.Sprintf("Write %q; the version %s is not needed.", group, version)
			}
			return ""
		})
}

// apiVersion is what a version of an API looks like.
var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// resourceName is what the plural name of a kind looks like.
var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// validResource admits plural names of kinds.
func validResource() validator.String {
	known := func(text string) string {
		lower := strings.ToLower(text)
		for _, known := range []string{addon.TemplateResource, addon.DeploymentConfigResource} {
			if lower == known || lower+"s" == known {
				return known
			}
		}
		return ""
	}
	return attribute.Fitting("Invalid resource", "the plural name of a kind in lower case, such as addontemplates",
		func(text string) bool {
			name := known(text)
			return (name == "" || name == text) && resourceName.MatchString(text)
		},
		func(text string) string {
			if name := known(text); name != "" {
				return fmt.Sprintf("Write %q.", name)
			}
			return "kubectl api-resources prints them."
		})
}

// validConfigs refuses what is pointless in a list of configurations.
func validConfigs() validator.List {
	const description = "at least one configuration, each named once"
	return attribute.ValidList(description, func(at path.Path, list types.List, diags *diag.Diagnostics) {
		if len(list.Elements()) == 0 {
			diags.AddAttributeError(at, "No configurations",
				attribute.Place(at)+" = [] names no configuration. Name at least one, or leave it out.")
		}
		seen, templates := attribute.Seen{}, attribute.Seen{}
		for i, c := range attribute.EachObject(list) {
			if !attribute.Known(list.Elements()[i]) {
				continue
			}
			at := at.AtListIndex(i)
			kind, _ := kindOf(c)
			key := strings.Join([]string{kind.Group, kind.Resource, c.Text("namespace"), c.Text("name")}, "/")
			checkConfigPlace(at, kind, c.Text("namespace"), diags)
			again := seen.Again(key, at, "Duplicate configuration",
				"name the same object. Remove one of them.", diags)
			if !again && kind == ownKind(addon.TemplateResource) {
				templates.Again("", at, "Two templates",
					"both name a template, and hubs use only the first. Remove one of them.", diags)
			}
		}
	})
}

// checkConfigPlace refuses a namespace for a kind that has none, and the reverse.
func checkConfigPlace(
	at path.Path, kind v1alpha1.ConfigGroupResource, namespace string, diags *diag.Diagnostics,
) {
	switch {
	case kind == ownKind(addon.TemplateResource) && namespace != "":
		at = at.AtName("namespace")
		diags.AddAttributeError(at, "Needless namespace",
			fmt.Sprintf("%s is %q, but templates of add-ons have no namespace. Remove it.",
				attribute.Place(at), namespace))
	case kind == ownKind(addon.DeploymentConfigResource) && namespace == "":
		diags.AddAttributeError(at, "Missing namespace",
			attribute.Place(at)+" names a deployment configuration, and these have namespaces. Set namespace.")
	}
}

// Where a configuration is used. One that goes before the add-ons that use it leaves
// these without their manifests: their pre-delete jobs can't run, and what waits for
// those waits for good.

// uses reports whether an add-on in a cluster uses a configuration: wants it, or has it.
func uses(x clusterAddOn, config v1alpha1.AddOnConfig) bool {
	is := func(c *v1alpha1.ConfigSpecHash) bool { return c != nil && c.ConfigReferent == config.ConfigReferent }
	return slices.Contains(x.Spec.Configs, config) ||
		slices.ContainsFunc(x.Status.ConfigReferences, func(r v1alpha1.ConfigReference) bool {
			return r.ConfigGroupResource == config.ConfigGroupResource &&
				(is(r.DesiredConfig) || is(r.LastAppliedConfig))
		})
}

// untilUnused waits, before a configuration of the add-ons' own kind resource is deleted,
// until nothing uses it, and reports whether it may go. Of one that is another owner's by
// now nothing has to be waited for.
func untilUnused[O kube.Object](ctx context.Context, c *crud.Change[O], resource string) bool {
	config := v1alpha1.AddOnConfig{ConfigGroupResource: ownKind(resource)}
	if config.Name = c.Keys[len(c.Keys)-1]; len(c.Keys) > 1 {
		config.Namespace = c.Keys[0]
	}
	client, diags, object := c.Client, c.Diagnostics, kube.Fresh(c.Object)
	err := client.Get(ctx, object, config.Namespace, config.Name)
	if err != nil || !crud.ClaimOf(ctx, c.Private, diags).Holds(object) {
		return true // The deletion will tell.
	}
	waiting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var users []string
	list, item := &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}
	err = client.WaitObjects(waiting, list, item, kube.ListOptions{}, func(all map[string]kube.Object) (bool, error) {
		users = users[:0]
		for _, object := range all {
			if x, ok := object.(clusterAddOn); ok && uses(x, config) {
				users = append(users, describeUser(x))
			}
		}
		return len(users) == 0, nil
	})
	switch {
	case err == nil, apierrors.IsForbidden(err) && len(users) == 0, kube.IsKindNotServed(err):
		return true // Who may not see them can't be asked to wait for them.
	case (hub.IsTimeout(err) || apierrors.IsForbidden(err)) && len(users) > 0:
		diags.AddError("Still in use: "+c.What, fmt.Sprintf("%s after the destroy began, these add-ons in clusters of "+
			"the hub %s still used it:\n  %s\n\n"+
			"It was left, because an add-on without its configuration can neither run nor be removed. "+
			"Remove it from their configs, or remove them, and apply again when the rollout or the removal is through.",
			attribute.ShortDuration(time.Since(c.Began).Round(time.Second)), client.Host(),
			strings.Join(text.First(attribute.Sorted(users), shownUsers), "\n  ")))
	default:
		hub.AddAPIError(diags, client, "find out whether "+c.What+" is in use", err)
	}
	return false
}

func describeUser(x clusterAddOn) string {
	text := fmt.Sprintf("%s in the cluster %s", x.Name, x.Namespace)
	if x.DeletionTimestamp != nil {
		text += ", which is being removed: kubectl describe managedclusteraddon -n " + x.Namespace + " " + x.Name
	}
	return text
}

// shownUsers is how many add-ons in clusters a message lists.
const shownUsers = 10
