package klusterlet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
)

const (
	// versionAnnotation on the bootstrap Secret keeps bootstrap_kubeconfig_wo_version.
	versionAnnotation = "muster-fleet.io/bootstrap-kubeconfig-version"
	// madeVersionAnnotation keeps the version of a bootstrap kubeconfig that the
	// provider made.
	madeVersionAnnotation = "muster-fleet.io/bootstrap-version"
)

// ownsKubeconfig reports whether the configuration brings its own bootstrap
// kubeconfig.
func (m *klusterletModel) ownsKubeconfig() bool { return !m.BootstrapKubeconfigNumber.IsNull() }

// makesKubeconfig reports whether the provider makes the bootstrap kubeconfig.
func (m *klusterletModel) makesKubeconfig() bool {
	enabled := m.bootstrapAttribute().Enabled
	return !m.ownsKubeconfig() && (enabled.IsNull() || enabled.ValueBool())
}

// insists reports whether one that the provider makes replaces one that somebody else
// has put into the cluster.
func (m *klusterletModel) insists() bool { return m.makesKubeconfig() && m.Bootstrap != nil }

// bootstrapAttribute is what the configuration says about the bootstrap kubeconfig
// that the provider makes.
func (m *klusterletModel) bootstrapAttribute() registration.BootstrapModel {
	if m.Bootstrap == nil {
		return registration.BootstrapModel{}
	}
	return *m.Bootstrap
}

// bootstrapNumber is by which attribute ever the bootstrap kubeconfig is numbered.
func (m *klusterletModel) bootstrapNumber() types.Int64 {
	if m.ownsKubeconfig() {
		return m.BootstrapKubeconfigNumber
	}
	return m.bootstrapAttribute().Version
}

// annotations are those of the bootstrap Secret.
func (m *klusterletModel) annotations() map[string]string {
	number := m.bootstrapNumber()
	if number.IsNull() || number.IsUnknown() {
		return nil
	}
	key := madeVersionAnnotation
	if m.ownsKubeconfig() {
		key = versionAnnotation
	}
	return map[string]string{key: strconv.FormatInt(number.ValueInt64(), 10)}
}

// renewsBootstrap reports whether going from the state to the plan takes another
// bootstrap kubeconfig, although the one in place may do.
func (m *klusterletModel) renewsBootstrap(state *klusterletModel) bool {
	number := m.bootstrapNumber()
	if !number.IsNull() && !number.Equal(state.bootstrapNumber()) {
		return true
	}
	if m.ownsKubeconfig() || !m.makesKubeconfig() || !state.makesKubeconfig() {
		return false
	}
	now, was := m.bootstrapAttribute(), state.bootstrapAttribute()
	return !now.Server.Equal(was.Server) || !now.CA.Equal(was.CA)
}

// ValidateConfig refuses options that no agent can have, and lives that Kubernetes
// gives no service account's token.
func (r *klusterletResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var credential, ttl types.String
	at := path.Root("bootstrap")
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, at.AtName("credential"), &credential)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, at.AtName("ttl"), &ttl)...)
	registration.CheckTTL(at.AtName("ttl"), credential.ValueString(), ttl.ValueString(), &resp.Diagnostics)
	CheckAgentConfig(ctx, req.Config, &resp.Diagnostics)
}

// handover is which bootstrap kubeconfig an agent gets.
type handover struct {
	hub *hub.Hub
	// kubeconfig is what the agent gets; empty when it keeps what it has. At first it
	// is the configuration's own, if there is one.
	kubeconfig []byte
	// own says that the configuration brings it; makes that the provider makes it, as
	// kind says; insists that it replaces one that somebody else has put there.
	own, makes, insists bool
	kind                registration.BootstrapModel
	// renew asks for another one although the one in place may do.
	renew bool
	// issued is the credential that was made.
	issued *registration.Issued
}

// needed reports whether the agent needs another bootstrap kubeconfig than the one
// that it has. A cluster that is certified and complete needs none: writing another
// one restarts the agent's registration.
func (h *handover) needed(seen observation) bool {
	switch {
	case !h.own && !h.makes:
		return false
	case h.renew:
		return true
	case !seen.bootstrap:
		return !seen.deletes || !seen.certified
	case h.makes && !h.insists && seen.foreign:
		return false
	}
	return !seen.certified || seen.foreign
}

// prepare gets the bootstrap kubeconfig for the cluster with this UID, if the agent
// needs one.
func (h *handover) prepare(ctx context.Context, name, uid string, seen observation, diags *diag.Diagnostics) bool {
	if !h.needed(seen) {
		h.kubeconfig = nil
		return true
	}
	if h.own {
		if len(h.kubeconfig) == 0 {
			needsKubeconfig(name, diags)
			return false
		}
		return true
	}
	doing := fmt.Sprintf("make a bootstrap kubeconfig for cluster %q", name)
	client := h.hub.Client(diags)
	if client == nil {
		diags.AddAttributeError(path.Root("bootstrap"), "Cannot "+doing,
			"The provider makes it on its hub. Configure the hub, bring a kubeconfig of your own with "+
				"bootstrap_kubeconfig_wo, or set bootstrap = { enabled = false } where its Secret comes from elsewhere.")
		return false
	}
	issued, err := h.kind.Bootstrap(name, uid).Issue(ctx, h.hub, client, diags)
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
		return false
	}
	h.issued, h.kubeconfig = &issued, issued.Kubeconfig
	return true
}

func needsKubeconfig(name string, diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("bootstrap_kubeconfig_wo"), fmt.Sprintf("The agent of cluster %q needs a "+
		"bootstrap kubeconfig", name),
		"bootstrap_kubeconfig_wo_version is set, and bootstrap_kubeconfig_wo is not. Set it, or leave both out, and "+
			"the provider makes one.")
}

// settle revokes the credential once the agent needs it no more, with those that
// earlier runs have left.
func (h *handover) settle(ctx context.Context, name, uid string, diags *diag.Diagnostics) {
	if h.issued == nil {
		return
	}
	var unconfigured diag.Diagnostics
	client := h.hub.Client(&unconfigured)
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.PreviewTimeout)
	defer cancel()
	if err := h.issued.Revoke(ctx, client); err != nil {
		diags.AddWarning(fmt.Sprintf("The bootstrap token of cluster %q was not revoked", name),
			fmt.Sprintf("%s It expires at %s.", hub.Explain(client.Host(), "revoke it", err), h.expires()))
		return
	}
	h.kind.Bootstrap(name, uid).RevokeLeftOver(ctx, client, time.Now())
}

// remains says until when the agent can still join with what it was given, after a
// wait for it has failed.
func (h *handover) remains() string {
	if h.issued == nil {
		return ""
	}
	return fmt.Sprintf("The agent can join by itself until %s, when its bootstrap token expires. The next apply "+
		"makes another one if need be.", h.expires())
}

// expires is when the credential does that was made.
func (h *handover) expires() string { return h.issued.Expires.UTC().Format(time.RFC3339) }
