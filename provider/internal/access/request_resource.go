package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*requestResource)(nil)
	_ resource.ResourceWithImportState    = (*requestResource)(nil)
	_ resource.ResourceWithIdentity       = (*requestResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*requestResource)(nil)
	_ resource.ResourceWithValidateConfig = (*requestResource)(nil)
)

// requestResource keeps an access request that is good. A request can't be changed:
// to renew access, another one is made, and the former is deleted when the new one is
// issued. So the key has access all the time; a key that is withdrawn first is refused
// until its certificate has ended.
type requestResource struct{ crud.Resource }

// NewRequest is muster_access_request.
func NewRequest() resource.Resource { return &requestResource{} }

func (r *requestResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_access_request"
	resp.ResourceBehavior.MutableIdentity = true // Renewal makes another object.
}

func (r *requestResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *requestResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := requestAttributes()
	for name, attribute := range answerAttributes() {
		attributes[name] = attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Asks for access to one cluster of a logical cloud with a certificate request of one's own, and waits for the certificate. The key is not needed and not known: the state holds the certificate only, which is public. " +
			"For a credential that lasts for one run of Terraform, and whose key is in no state, use the ephemeral resource `muster_cluster_kubeconfig`.\n\n" +
			"Access ends, in hours as a rule. An apply within `renew_before` of the end asks again, and withdraws the former request once the new one is issued; so does a changed `csr_pem` or `ttl`. " +
			"Without an apply nothing is renewed. Destroying the resource withdraws access at once.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("the answer", defaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("the answer to a renewal", defaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("withdrawing access, which waits for the cluster's agent,", attribute.DefaultDelete),
			}),
		},
	}
}

func (r *requestResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan requestModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, defaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := r.send(ctx, &plan, resp.Private, &resp.Diagnostics)
	if object == nil {
		return
	}
	plan.report(object)
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics) // An interruption must not lose it.
	r.answered(ctx, &plan, object, timeout, &resp.Diagnostics)
	plan.report(object)
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *requestResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state requestModel
	object := &v1alpha1.AccessRequest{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.report(object)
		return nil
	})
}

// Update asks again where the plan says so. Other changes concern Terraform alone.
func (r *requestResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state requestModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.Name.IsUnknown() {
		crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
		return
	}
	object := r.send(ctx, &plan, resp.Private, &resp.Diagnostics)
	if object == nil {
		return
	}
	if !r.answered(ctx, &plan, object, timeout, &resp.Diagnostics) {
		// The former one stays in the state, and this one must not be left behind.
		r.withdraw(ctx, object.Namespace, object.Name, &resp.Diagnostics)
		crud.KeepClaim(ctx, resp.Private, crud.ClaimOf(ctx, req.Private, &resp.Diagnostics), &resp.Diagnostics)
		return
	}
	plan.report(object)
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
	r.withdraw(ctx, state.Namespace.ValueString(), state.Name.ValueString(), &resp.Diagnostics)
}

func (r *requestResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state requestModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.AccessRequest{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(*kube.Client) (summary, detail string) {
		text := hub.DescribeDeletion(object, time.Now()) + "\n" + hub.DescribeConditions(object.Status.Conditions, time.Now())
		summary = "Not withdrawn yet: " + state.What()
		if end := object.Status.NotAfter; end != nil {
			summary += fmt.Sprintf(". The certificate ends by itself at %s", end.UTC().Format(time.RFC3339))
		}
		return summary, text
	})
}

func (r *requestResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.AccessRequest{}
	named := func(names []string) crud.Model {
		return &requestModel{answerModel: answerModel{Namespace: types.StringValue(names[0]), Name: types.StringValue(names[1])}}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "name"}, object, named, func() (crud.Model, error) { return importRequest(object) })
}

// send makes a request of the plan on the hub.
func (r *requestResource) send(ctx context.Context, plan *requestModel, private crud.PrivateWriter, diags *diag.Diagnostics) *v1alpha1.AccessRequest {
	object, err := plan.object()
	if err != nil {
		diags.AddError("Cannot ask for "+plan.What(), attribute.Capitalize(err.Error())+".")
		return nil
	}
	plan.Name = types.StringValue(object.Name)
	if !r.CreateObject(ctx, plan.owned(object), private, diags) {
		return nil
	}
	return object
}

// answered waits for the answer, and reports whether it came.
func (r *requestResource) answered(ctx context.Context, plan *requestModel, object *v1alpha1.AccessRequest, timeout time.Duration, diags *diag.Diagnostics) bool {
	client := r.Hub.Client(diags)
	if client == nil {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := await(waiting, client, object); err != nil {
		diags.AddError("No access: "+plan.What(), describe(client, object, timeout, err))
		return false
	}
	if len(object.Status.Certificate) == 0 {
		diags.AddError("No access: "+plan.What(), "The hub says that access is issued, but there is no certificate in the answer.")
		return false
	}
	if len(object.Status.Endpoints) == 0 {
		diags.AddWarning("Nobody knows where the cluster is: "+plan.What(), attribute.Capitalize(useraccess.NoEndpoint(object).Error())+". Until then endpoint is null.")
	}
	return true
}

// withdraw deletes a request that is not needed any more. That it can't be deleted is
// no reason to fail: it ends by itself.
func (r *requestResource) withdraw(ctx context.Context, namespace, name string, diags *diag.Diagnostics) {
	client := r.Hub.Client(diags)
	if client == nil {
		return
	}
	if _, err := client.Delete(context.WithoutCancel(ctx), &v1alpha1.AccessRequest{}, namespace, name, ""); err != nil {
		diags.AddWarning(fmt.Sprintf("Not withdrawn: access request %q", namespace+"/"+name),
			hub.Explain(client.Host(), "delete it", err)+" It ends by itself; to end it now: kubectl delete accessrequest -n "+namespace+" "+name)
	}
}

func importRequest(object *v1alpha1.AccessRequest) (*requestModel, error) {
	if len(object.Spec.Request) == 0 {
		return nil, errors.New("it asks for a token, which muster_access_request does not do: only requests with a certificate request can be imported")
	}
	m := &requestModel{
		LogicalCloud:   types.StringValue(object.Namespace + "/" + object.Spec.LogicalCloud),
		ManagedCluster: types.StringValue(object.Spec.ManagedCluster),
		CSR:            types.StringValue(string(object.Spec.Request)),
		Timeouts:       attribute.NullTimeouts("create", "update", "delete"),
	}
	if object.Spec.ExpirationSeconds > 0 {
		m.TTL = types.StringValue(attribute.ShortDuration(time.Duration(object.Spec.ExpirationSeconds) * time.Second))
	}
	if object.Spec.User != object.Spec.Requester.Username {
		m.User, m.Groups = types.StringValue(object.Spec.User), attribute.TextValues(object.Spec.Requester.Groups)
	}
	m.report(object)
	return m, nil
}
