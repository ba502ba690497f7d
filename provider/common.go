package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// hubResource is what all resources have in common: the hub.
type hubResource struct {
	hub *hub
}

// Configure implements resource.ResourceWithConfigure.
func (r *hubResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.hub = configured(req.ProviderData, &resp.Diagnostics)
}

// skipRead reports whether the hub can't be asked because it is not known yet.
// The state then stays as it is.
func (r *hubResource) skipRead(diags *diag.Diagnostics) bool {
	if r.hub == nil || !r.hub.isUnknown() {
		return false
	}
	diags.AddWarning("The hub is not known yet",
		fmt.Sprintf("The provider block's %s will only be known after apply, so the state was not compared with the hub.", strings.Join(r.hub.unknown, ", ")))
	return true
}

// forceAttribute is on every resource that applies an object.
func forceAttribute() schema.BoolAttribute {
	return schema.BoolAttribute{
		MarkdownDescription: "What to do about fields that another field manager, such as a controller or a person with kubectl, has set to other values. " +
			"Left out or `true`, they are taken over: an update's difference is in the plan, and an object that exists before it is created is refused unless `adopt` is set. " +
			"`false` never takes them over, and the error names their managers.",
		Optional: true,
	}
}

// Identities.

type nameIdentity struct {
	Name types.String `tfsdk:"name"`
}

type clusterIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
}

type namespacedIdentity struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
}

func identitySchema(attributes ...string) identityschema.Schema {
	s := identityschema.Schema{Attributes: map[string]identityschema.Attribute{}}
	for _, name := range attributes {
		s.Attributes[name] = identityschema.StringAttribute{RequiredForImport: true}
	}
	return s
}

// importedNames takes the object's names out of an import by ID (name, or
// first/second) or by identity, in the order of attributes.
func importedNames(ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics, attributes ...string) []string {
	names := make([]string, len(attributes))
	if req.ID == "" {
		for i, attribute := range attributes {
			diags.Append(req.Identity.GetAttribute(ctx, path.Root(attribute), &names[i])...)
		}
		return names
	}
	parts := strings.SplitN(req.ID, "/", len(attributes))
	if len(parts) != len(attributes) || strings.Contains(parts[len(parts)-1], "/") || parts[0] == "" || parts[len(parts)-1] == "" {
		diags.AddError("Invalid import ID",
			fmt.Sprintf("%q does not name an object: the ID has the form %s.", req.ID, strings.ToUpper(strings.Join(attributes, "/"))))
		return names
	}
	copy(names, parts)
	return names
}

// nullTimeouts is the timeouts block left out, as after an import.
func nullTimeouts(operations ...string) timeouts.Value {
	attributes := map[string]attr.Type{}
	for _, operation := range operations {
		attributes[operation] = types.StringType
	}
	return timeouts.Value{Object: types.ObjectNull(attributes)}
}

const (
	defaultWait   = 10 * time.Minute
	defaultDelete = 10 * time.Minute
)

func timeoutText(what string, standard time.Duration) string {
	return fmt.Sprintf("How long %s may take, such as `90s` or `15m`. Defaults to `%s`.", what, shortDuration(standard))
}

// shortDuration writes 10m for 10m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "m0s")
	if text != d.String() {
		text += "m"
	}
	return text
}

// find reads an object. ok is false after an error; found is false when the
// object itself does not exist.
func (r *hubResource) find(ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics) (found, ok bool) {
	client := r.hub.client(diags)
	if client == nil {
		return false, false
	}
	err := client.Get(ctx, object, namespace, name)
	if kube.IsNotFound(err, name) {
		return false, true
	}
	if err != nil {
		addAPIError(diags, client, doing, err)
		return false, false
	}
	return true, true
}

// existing reads an object that has to exist, as for an import.
func (r *hubResource) existing(ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics) bool {
	found, ok := r.find(ctx, object, namespace, name, doing, diags)
	if ok && !found {
		diags.AddError("Cannot "+doing, "It does not exist on the hub. Check its name, or let Terraform create it.")
	}
	return ok && found
}

// destroy deletes an object and waits until it is gone.
func (r *hubResource) destroy(ctx context.Context, object kube.Object, namespace, name, what string, timeout time.Duration, was privateReader, diags *diag.Diagnostics) {
	client := r.hub.client(diags)
	if client == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.delete(waiting, client, object, namespace, name, what, was, diags)
	switch {
	case err == nil:
	case isTimeout(err):
		diags.AddError("Cannot delete "+what, fmt.Sprintf("It was still there after %s.\n%s", timeout, describeDeletion(object, time.Now())))
	default:
		addAPIError(diags, client, "delete "+what, err)
	}
}
