package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure      = (*kubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithValidateConfig = (*kubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithRenew          = (*kubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithClose          = (*kubeconfigEphemeral)(nil)
)

// privateRequests is the key of what Renew and Close need to know.
const privateRequests = "requests"

// lastWarning is how long before the end of access Terraform is warned.
const lastWarning = time.Minute

type kubeconfigEphemeral struct{ hub *hub.Hub }

// opened is what Renew and Close need to know.
type opened struct {
	Requests []objectName `json:"requests"`
	NotAfter time.Time    `json:"notAfter"`
}

type objectName struct{ Namespace, Name string }

// NewKubeconfig is the ephemeral resource muster_cluster_kubeconfig.
func NewKubeconfig() ephemeral.EphemeralResource { return &kubeconfigEphemeral{} }

func (e *kubeconfigEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_kubeconfig"
}

func (e *kubeconfigEphemeral) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	e.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// Open makes keys in memory, asks for access with them, and waits for the answers.
func (e *kubeconfigEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model kubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if e.hub != nil && e.hub.IsUnknown() {
		if req.ClientCapabilities.DeferralAllowed {
			resp.Deferred = &ephemeral.Deferred{Reason: ephemeral.DeferredReasonProviderConfigUnknown}
			return
		}
		model.unknown()
		resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
		return
	}
	client := e.hub.Client(&resp.Diagnostics)
	if client == nil {
		return
	}
	timeout := model.timeout()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s := session{client: client, timeout: timeout}
	credentials, err := s.ask(waiting, e.hub, &model)
	if err == nil {
		err = model.fill(credentials, s.clusterNamespace())
	}
	if err != nil {
		withdrawAll(ctx, client, s.names(), &resp.Diagnostics)
		s.explain(&resp.Diagnostics, &model, err)
		return
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
	private, err := json.Marshal(opened{Requests: s.names(), NotAfter: s.end})
	if err != nil {
		withdrawAll(ctx, client, s.names(), &resp.Diagnostics)
		resp.Diagnostics.AddError("Cannot note what is to be withdrawn", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateRequests, private)...)
	resp.RenewAt = s.end.Add(-lastWarning)
}

// Renew can't prolong a certificate, and Terraform takes no other in its place. It
// warns that access ends.
func (e *kubeconfigEphemeral) Renew(ctx context.Context, req ephemeral.RenewRequest, resp *ephemeral.RenewResponse) {
	private, diags := req.Private.GetKey(ctx, privateRequests)
	resp.Diagnostics.Append(diags...)
	var o opened
	if json.Unmarshal(private, &o) != nil {
		return
	}
	resp.Diagnostics.AddWarning("Access to the clusters ends before the run does",
		fmt.Sprintf("It ends at %s, and the rest of the run will be refused there. Raise ttl of the muster_cluster_kubeconfig, as far as the logical cloud allows, and apply again.", o.NotAfter.UTC().Format(time.RFC3339)))
}

// Close withdraws access.
func (e *kubeconfigEphemeral) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	private, diags := req.Private.GetKey(ctx, privateRequests)
	resp.Diagnostics.Append(diags...)
	var o opened
	if resp.Diagnostics.HasError() || private == nil || json.Unmarshal(private, &o) != nil {
		return // nothing was asked for while the hub was unknown
	}
	if client := e.hub.Client(&resp.Diagnostics); client != nil {
		withdrawAll(ctx, client, o.Requests, &resp.Diagnostics)
	}
}

// withdrawAll deletes requests. What can't be deleted ends by itself.
func withdrawAll(ctx context.Context, client *kube.Client, requests []objectName, diags *diag.Diagnostics) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadTimeout)
	defer cancel()
	for _, r := range requests {
		if _, err := client.Delete(ctx, &v1alpha1.AccessRequest{}, r.Namespace, r.Name, ""); err != nil {
			diags.AddWarning(fmt.Sprintf("Not withdrawn: access request %q", r.Namespace+"/"+r.Name), hub.Explain(client.Host(), "delete it", err)+" It ends by itself.")
		}
	}
}

// session is what is asked for at once.
type session struct {
	client  *kube.Client
	timeout time.Duration
	// cloud is nil where the user may use it and not read it.
	cloud    *v1alpha1.LogicalCloud
	requests []*v1alpha1.AccessRequest
	end      time.Time
}

func (s *session) names() []objectName {
	var names []objectName
	for _, r := range s.requests {
		names = append(names, objectName{r.Namespace, r.Name})
	}
	return names
}

// ask asks for access to all clusters side by side, and waits for all answers.
func (s *session) ask(ctx context.Context, h *hub.Hub, model *kubeconfigModel) ([]useraccess.Credential, error) {
	id, err := hubID(ctx, h, s.client)
	if err != nil {
		return nil, err
	}
	if model.User.IsNull() {
		user, err := whoami(ctx, s.client)
		if err != nil {
			return nil, err
		}
		model.GrantedTo = types.StringValue(user)
	} else {
		model.GrantedTo = model.User
	}
	keys, err := useraccess.NewKeys()
	if err != nil {
		return nil, err
	}
	namespace, name, _ := useraccess.SplitCloud(model.LogicalCloud.ValueString()) // validated
	cloud := &v1alpha1.LogicalCloud{}
	if s.client.Get(ctx, cloud, namespace, name) == nil { // else the answer to the request says more
		s.cloud = cloud
	}
	for _, cluster := range model.clusters() {
		request, err := model.ask(s.cloud, cluster, id).Request(keys)
		if err != nil {
			return nil, err
		}
		if err := s.client.Create(ctx, request); err != nil {
			return nil, fmt.Errorf("ask for access to cluster %q: %w", cluster, err)
		}
		s.requests = append(s.requests, request)
	}
	var credentials []useraccess.Credential
	for _, request := range s.requests {
		if err := await(ctx, s.client, request); err != nil {
			return nil, &clusterError{request, err}
		}
		c, err := useraccess.Open(request, keys, id)
		if err != nil {
			return nil, &clusterError{request, &refusedError{err.Error()}}
		}
		if s.end.IsZero() || c.NotAfter.Before(s.end) {
			s.end = c.NotAfter
		}
		credentials = append(credentials, c)
	}
	return credentials, nil
}

// clusterNamespace is the cloud's namespace in the clusters, for the contexts.
func (s *session) clusterNamespace() string {
	if s.cloud == nil {
		return ""
	}
	return s.cloud.Spec.Namespace.Name
}

// clusterError is that of one of several requests.
type clusterError struct {
	request *v1alpha1.AccessRequest
	err     error
}

// Error implements error.
func (e *clusterError) Error() string { return e.err.Error() }

// explain adds an error with what is missing.
func (s *session) explain(diags *diag.Diagnostics, model *kubeconfigModel, err error) {
	var of *clusterError
	if !errors.As(err, &of) {
		hub.AddAPIError(diags, s.client, fmt.Sprintf("get access to the clusters of logical cloud %q", model.LogicalCloud.ValueString()), err)
		return
	}
	diags.AddError(fmt.Sprintf("No access to cluster %q of logical cloud %q", of.request.Spec.ManagedCluster, model.LogicalCloud.ValueString()),
		describe(s.client, of.request, s.timeout, of.err))
}

func (m *kubeconfigModel) timeout() time.Duration {
	if d, err := time.ParseDuration(m.Timeout.ValueString()); err == nil {
		return d
	}
	return defaultWait
}

// clusters are those that are asked for, in alphabetical order.
func (m *kubeconfigModel) clusters() []string {
	if !m.ManagedCluster.IsNull() {
		return []string{m.ManagedCluster.ValueString()}
	}
	return attribute.Sorted(attribute.Texts(m.ManagedClusters))
}
