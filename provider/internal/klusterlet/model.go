package klusterlet

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
)

const (
	// versionAnnotation on the bootstrap Secret keeps bootstrap_kubeconfig_wo_version.
	versionAnnotation = "muster-fleet.io/bootstrap-kubeconfig-version"
	// madeVersionAnnotation keeps the version of a bootstrap kubeconfig that the
	// provider made.
	madeVersionAnnotation = "muster-fleet.io/bootstrap-version"
)

// model is a configuration, a plan or a state of the resource. One of nothing, such as
// the state before a creation, has no attributes.
type model struct {
	attribute.Values
	kinds map[string]attr.Type
}

func modelOf(ctx context.Context, from crud.Getter, diags *diag.Diagnostics) model {
	var whole types.Object
	diags.Append(from.Get(ctx, &whole)...)
	return model{whole.Attributes(), whole.AttributeTypes(ctx)}
}

// object is what the framework stores.
func (m model) object() types.Object { return types.ObjectValueMust(m.kinds, m.Values) }

// bootstrapValues are the attributes of bootstrap; none where it is not set.
func (m model) bootstrapValues() attribute.Values {
	object, _ := m.Values["bootstrap"].(types.Object)
	return object.Attributes()
}

func (m model) limits() timeouts.Value {
	limits, _ := m.Values["timeouts"].(timeouts.Value)
	return limits
}

// connection is how to reach the cluster; nil where nothing is known of it.
func (m model) connection() *connection.Model {
	to, _ := m.Values["cluster_connection"].(types.Object)
	return connection.Of(to)
}

func (m model) identity() klusterletIdentity {
	name, _ := m.Values["cluster_name"].(types.String)
	namespace, _ := m.Values["namespace"].(types.String)
	id := klusterletIdentity{ClusterName: name, Namespace: namespace}
	if to := m.connection(); to != nil {
		id.KubeconfigPath, id.Context = to.Path(), to.ContextName()
	}
	return id
}

// failed reports whether the last attempt to install or change the agent did.
func (m model) failed() bool { return len(m.Texts("problems")) > 0 }

// continues reports whether a failure is to be a warning.
func (m model) continues() bool { return m.Text("on_failure") == onFailureContinue }

// ownsKubeconfig reports whether the configuration brings its own bootstrap
// kubeconfig.
func (m model) ownsKubeconfig() bool { return m.IsSet("bootstrap_kubeconfig_wo_version") }

// makesKubeconfig reports whether the provider makes the bootstrap kubeconfig.
func (m model) makesKubeconfig() bool {
	bootstrap := m.bootstrapValues()
	return !m.ownsKubeconfig() && (!bootstrap.IsSet("enabled") || bootstrap.Bool("enabled"))
}

// keepsBootstrap reports whether the bootstrap kubeconfig's Secret is the provider's to
// keep.
func (m model) keepsBootstrap() bool { return m.ownsKubeconfig() || m.makesKubeconfig() }

// insists reports whether one that the provider makes replaces one that somebody else
// has put into the cluster.
func (m model) insists() bool { return m.makesKubeconfig() && m.IsSet("bootstrap") }

// bootstrapNumber is by which attribute ever the bootstrap kubeconfig is numbered, and
// the annotation that keeps the number.
func (m model) bootstrapNumber() (number types.Int64, annotation string) {
	if m.ownsKubeconfig() {
		number, _ = m.Values["bootstrap_kubeconfig_wo_version"].(types.Int64)
		return number, versionAnnotation
	}
	number, _ = m.bootstrapValues()["version"].(types.Int64)
	return number, madeVersionAnnotation
}

// annotations are those of the bootstrap Secret.
func (m model) annotations() map[string]string {
	number, annotation := m.bootstrapNumber()
	if number.IsNull() || number.IsUnknown() {
		return nil
	}
	return map[string]string{annotation: strconv.FormatInt(number.ValueInt64(), 10)}
}

// bootstrap is the bootstrap kubeconfig that the provider makes for the cluster with this
// UID.
func (m model) bootstrap(uid string) registration.Bootstrap {
	return registration.BootstrapOf(m.bootstrapValues(), m.Text("cluster_name"), uid)
}

// setBootstrapVersion notes the version of the bootstrap kubeconfig that the provider made.
func (m model) setBootstrapVersion(version types.Int64) {
	of, _ := m.kinds["bootstrap"].(types.ObjectType)
	bootstrap := m.bootstrapValues()
	for name, kind := range of.AttrTypes {
		if bootstrap[name] == nil {
			bootstrap[name] = attribute.Null(kind)
		}
	}
	bootstrap["version"] = version
	m.Values["bootstrap"] = types.ObjectValueMust(of.AttrTypes, bootstrap)
}

// differ reports whether two models say something else of attributes.
func differ(a, b attribute.Values, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return a.IsSet(name) != b.IsSet(name) || a.IsSet(name) && !a[name].Equal(b[name])
	})
}

// renewsBootstrap reports whether going from the state to the plan takes another
// bootstrap kubeconfig, although the one in place may do.
func (m model) renewsBootstrap(state model) bool {
	number, _ := m.bootstrapNumber()
	before, _ := state.bootstrapNumber()
	if !number.IsNull() && !number.Equal(before) {
		return true
	}
	return m.makesKubeconfig() && state.makesKubeconfig() &&
		differ(m.bootstrapValues(), state.bootstrapValues(), "server", "cluster_ca_certificate")
}

// touchesCluster reports whether going from the state to the plan takes anything
// in the managed cluster.
func (m model) touchesCluster(state model) bool {
	names := append(AgentOptionNames(), "cluster_name", "namespace", "installed")
	return differ(m.Values, state.Values, names...) ||
		m.renewsBootstrap(state) || m.insists() && !state.insists() ||
		!m.Values["cluster_uid"].IsUnknown() && differ(m.Values, state.Values, "cluster_uid") ||
		m.Bool("wait_for_bootstrap") && !state.Bool("ready")
}

// observe brings the state up to date.
func (m model) observe(seen observation) {
	m.Values["installed"], m.Values["joined"] = types.BoolValue(seen.complete()), types.BoolValue(seen.certified)
	m.Values["offline"] = types.BoolValue(m.Bool("offline")) // null in a state of a version without it
	m.Values["ready"] = types.BoolNull()
	if m.Bool("wait_for_bootstrap") {
		m.Values["ready"] = types.BoolValue(seen.ready())
	}
	if m.ownsKubeconfig() && !seen.number.IsNull() {
		m.Values["bootstrap_kubeconfig_wo_version"] = seen.number
	}
	if m.bootstrapValues().IsSet("version") && !seen.version.IsNull() {
		m.setBootstrapVersion(seen.version)
	}
}

// adopt fills in from what is there the state of an agent that is imported.
func (m model) adopt(seen observation) {
	options := klusterlet.OptionsOf(seen.deployment)
	maps.Copy(m.Values, AgentTable().Read(&options))
	m.Values["bootstrap_kubeconfig_wo_version"] = seen.number
	if !seen.version.IsNull() {
		m.setBootstrapVersion(seen.version)
	}
	m.Values["problems"], m.Values["offline"] = attribute.StringListValue([]string{}), types.BoolValue(false)
	m.Values["installed"], m.Values["ready"] = types.BoolValue(true), types.BoolValue(seen.ready())
	m.Values["joined"] = types.BoolValue(seen.certified)
}
