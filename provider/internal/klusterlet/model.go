package klusterlet

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/objectvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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

func (m model) limits() timeouts.Value {
	limits, _ := m.Values["timeouts"].(timeouts.Value)
	return limits
}

// connection is how to reach the cluster; nil where nothing is known of it.
func (m model) connection() connection.Model {
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
	bootstrap := m.Object("bootstrap")
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
	number, _ = m.Object("bootstrap")["version"].(types.Int64)
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
	return registration.BootstrapOf(m.Object("bootstrap"), m.Text("cluster_name"), uid)
}

// setBootstrapVersion notes the version of the bootstrap kubeconfig that the provider made.
func (m model) setBootstrapVersion(version types.Int64) {
	of, _ := m.kinds["bootstrap"].(types.ObjectType)
	bootstrap := m.Object("bootstrap")
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
		differ(m.Object("bootstrap"), state.Object("bootstrap"), "server", "cluster_ca_certificate")
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
	if m.Object("bootstrap").IsSet("version") && !seen.version.IsNull() {
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
	m.Values["problems"] = attribute.StringListValue([]string{})
	m.observe(seen)
	m.Values["installed"] = types.BoolValue(true)
}

// klusterletAttributes are the arguments and results of the resource.
func klusterletAttributes() map[string]schema.Attribute {
	attributes := bootstrapAttributes()
	maps.Copy(attributes, agentAttributes())
	maps.Copy(attributes, AgentTable().Attributes())
	return attributes
}

// agentAttributes are those of the agent and its place.
func agentAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_name": attribute.Identifying("Name of the cluster on the hub. Changing it replaces the agent.",
			attribute.ValidClusterName()),
		"namespace": schema.StringAttribute{
			MarkdownDescription: "Namespace for the agent. It is made, and removed with the agent. " +
				"Defaults to `" + cluster.AgentNamespace + "`.",
			Optional: true, Computed: true, Default: stringdefault.StaticString(cluster.AgentNamespace),
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators: []validator.String{
				attribute.ValidName("namespace"),
				stringvalidator.NoneOf("default", "kube-system", "kube-public", "kube-node-lease"),
			},
		},
		"cluster_connection": connection.ResourceAttribute("How to reach the managed cluster's API server. It is " +
			"kept in the state because reading and destroying need it, so it has no write-only attributes: " +
			"to keep credentials out of the state, use `kubeconfig_path` or `exec`. Its attributes are those of the " +
			"provider block."),
		"cluster_uid": schema.StringAttribute{
			MarkdownDescription: "UID of the namespace `kube-system` of the managed cluster, which identifies it. If " +
				"omitted, it is recorded when the agent is installed: a cluster that was rebuilt at its old address " +
				"gets its agent again, and a connection that leads to another cluster at another address is refused. " +
				"Set it to require a particular cluster, such as the one that takes over the name.",
			Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"wait_for_bootstrap": attribute.DefaultFlag("Whether to wait, after installing and updating, until the agent "+
			"is rolled out and holds a certificate from the hub. A wait that fails makes an update fail; after a "+
			"creation it only warns and leaves `ready` false, and the next apply continues. A stuck pod, for example "+
			"with an image that can't be pulled, ends the wait after half a minute, and one that can't reach the hub "+
			"after a minute. Needed with a `bootstrap_kubeconfig_wo` that is revoked when Terraform ends. The cluster "+
			"has to be accepted, by a resource that does not depend on this one. Defaults to `true`.", true),
		"keep_works_on_destroy": attribute.DefaultFlag("Whether to remove the agent without waiting until the hub's "+
			"works are gone; what they applied stays. For a lost hub. Defaults to `false`.", false),
		"installed": schema.BoolAttribute{
			MarkdownDescription: "Whether the agent's objects all exist unchanged, with nothing added to them that " +
				"decides what runs as the agent. When one is missing or was changed, a warning names each of them, " +
				"and the plan shows `false -> true`, or `false -> (known after apply)` with `on_failure = " +
				"\"continue\"`.",
			Computed: true, Default: booldefault.StaticBool(true),
		},
		"joined": attribute.FlagAttribute("Whether the agent held a certificate of this hub when it was last looked " +
			"at, so that the cluster has joined. It stays as it was while the cluster can't be reached."),
		"ready": attribute.FlagAttribute("Whether the agent is rolled out as configured and holds a certificate. It " +
			"is `false`, too, while the agent belongs to another hub than this one, as after the hub was rebuilt. " +
			"When it is `false`, the next apply hands over a bootstrap kubeconfig and waits again. Null with " +
			"`wait_for_bootstrap = false`."),
		"on_failure": attribute.Optional("What to do when the agent can't be installed or changed, for example "+
			"because the cluster can't be reached. `fail` is an error: Terraform then leaves out everything that "+
			"depends on this resource, with `for_each` on **any** of its instances. `continue` is a warning: the "+
			"others continue, `problems` describes the failure, and the next apply tries again. Defaults to "+
			"`fail`.", stringvalidator.OneOf(onFailureFail, onFailureContinue)),
		"offline": attribute.FlagAttribute("Whether the change that is in `problems` failed because the cluster, " +
			"which could be reached before by the same address, did not answer. The next apply tries again."),
		"problems": attribute.TextsAttribute("Why the agent could not be installed or changed, or has not joined in " +
			"time, with `on_failure = \"continue\"`; empty when it could. A `precondition` of what needs this one " +
			"cluster can ask for it."),
	}
}

// bootstrapAttributes are those of what the agent registers with.
func bootstrapAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"bootstrap": registration.BootstrapAttribute("What bootstrap kubeconfig the provider makes, with which the "+
			"agent registers at the hub. It is made when the agent is installed and whenever it needs another one, "+
			"never for a plan or for a cluster that does not change. It is bound to the cluster, revoked once the "+
			"agent has its certificate, and in neither state nor plan. If the wait for the agent ends before, or "+
			"with `wait_for_bootstrap = false`, the token is valid for its `ttl`, so that the agent can still join. "+
			"If neither this nor `bootstrap_kubeconfig_wo` is set, one is made as with `bootstrap = {}`, unless "+
			"somebody else has put the Secret `"+cluster.BootstrapSecret+"` into the agent's namespace, which is "+
			"then used as it is.",
			objectvalidator.ConflictsWith(
				path.MatchRoot("bootstrap_kubeconfig_wo"), path.MatchRoot("bootstrap_kubeconfig_wo_version"))),
		"bootstrap_kubeconfig_wo": schema.StringAttribute{
			MarkdownDescription: "Kubeconfig of your own with which the agent registers at the hub, in place of " +
				"`bootstrap`: for example of another hub, or from the ephemeral resource " +
				"`muster_bootstrap_kubeconfig`. Write-only: it is never kept in the state.",
			Optional: true, Sensitive: true, WriteOnly: true,
			Validators: []validator.String{
				validKubeconfig(), stringvalidator.AlsoRequires(path.MatchRoot("bootstrap_kubeconfig_wo_version")),
			},
		},
		"bootstrap_kubeconfig_wo_version": attribute.OptionalNumber("Number of the bootstrap kubeconfig. Raise it "+
			"to hand a new one to the agent, for example after the hub has moved. Without "+
			"`bootstrap_kubeconfig_wo`, as after an import, the one in place stays.", int64validator.AtLeast(0)),
	}
}
