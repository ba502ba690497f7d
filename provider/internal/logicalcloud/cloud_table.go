package logicalcloud

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/access"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// The limits of the API.
const (
	maxPlacements = 16
	maxQuotas     = 16
	maxGrants     = 64
	maxSubjects   = 256
)

// The API's defaults of access.
const (
	defaultLifetime    = "8h"
	defaultMaxLifetime = "24h"
	defaultRequests    = 10
)

// cloudTable are the attributes of the cloud itself, and of the wait for it.
func cloudTable() attribute.Table[logicalCloud] {
	return attribute.Table[logicalCloud]{
		attribute.LabelsField[logicalCloud]("Labels of the cloud."),
		attribute.AnnotationsField[logicalCloud]("Annotations of the cloud."),
		attribute.TextSetOf("placements",
			schema.SetAttribute{
				MarkdownDescription: fmt.Sprintf("Names of the placements, in the same namespace, that select the "+
					"clusters; 1 to %d. A cluster that several of them select counts once.", maxPlacements),
				Required: true,
				Validators: []validator.Set{
					setvalidator.SizeBetween(1, maxPlacements),
					setvalidator.ValueStringsAre(attribute.ValidName("placement name")),
				},
			},
			func(cloud logicalCloud) *[]v1alpha1.PlacementReference { return &cloud.Spec.Placements },
			func(r *v1alpha1.PlacementReference) *string { return &r.Name }),
		attribute.Object("cluster_namespace", attribute.RequiredObject("The cloud's namespace in each cluster."),
			func(cloud logicalCloud) *v1alpha1.CloudNamespace { return &cloud.Spec.Namespace },
			clusterNamespaceTable()...).At("spec.namespace"),
		attribute.Code("quotas",
			schema.MapAttribute{
				MarkdownDescription: "Resource quotas in the namespace of each cluster, by name, each as a map of " +
					"limits: `{ main = { \"limits.cpu\" = \"400\", pods = \"50\" } }`. Each cluster counts by itself.",
				Optional: true, ElementType: types.MapType{ElemType: types.StringType},
				Validators: []validator.Map{
					mapvalidator.SizeBetween(1, maxQuotas), mapvalidator.KeysAre(attribute.ValidName("quota name")),
					mapvalidator.ValueMapsAre(
						mapvalidator.SizeAtLeast(1), mapvalidator.ValueStringsAre(validQuantity())),
				},
			}, setQuotas, quotasOf),
		attribute.Code("quota_scopes",
			schema.MapAttribute{
				MarkdownDescription: "Limits quotas to some pods, by the quota's name: `{ main = " +
					"[\"NotTerminating\"] }`. Scopes are `Terminating`, `NotTerminating`, `BestEffort`, " +
					"`NotBestEffort` and `CrossNamespacePodAffinity`.",
				Optional: true, ElementType: types.SetType{ElemType: types.StringType},
				Validators: []validator.Map{
					mapvalidator.SizeAtLeast(1),
					mapvalidator.ValueSetsAre(setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.OneOf(
						corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
						corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
						corev1.ResourceQuotaScopeCrossNamespacePodAffinity)...)),
				},
			}, setQuotaScopes, quotaScopesOf).At("spec.quotas"),
		attribute.Objects("grants", attribute.OptionalObjects("Who may do what in the clusters. A user has the sum "+
			"of the grants that name the user or one of the user's groups.", listvalidator.SizeBetween(1, maxGrants)),
			func(cloud logicalCloud) *[]v1alpha1.Grant { return &cloud.Spec.Grants },
			grantTable()...),
		attribute.Object("access",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Limits how users come in.",
				Optional:            true, Computed: true,
				Default: objectdefault.StaticValue(types.ObjectValueMust(accessTable().Types(), map[string]attr.Value{
					"modes": bothModes(), "default_lifetime": types.StringValue(defaultLifetime),
					"max_lifetime":          types.StringValue(defaultMaxLifetime),
					"key_policy":            types.StringValue(string(v1alpha1.KeyUserHeld)),
					"max_requests_per_user": types.Int64Value(defaultRequests),
				})),
			},
			func(cloud logicalCloud) *v1alpha1.CloudAccess { return &cloud.Spec.Access },
			accessTable()...),
		attribute.Local[logicalCloud]("wait", waitAttribute().Schema()),
		attribute.Local[logicalCloud]("ready", attribute.Ready("Whether what `wait` asks for was met; null without "+
			"`wait`.")),
	}
}

func clusterNamespaceTable() attribute.Table[*v1alpha1.CloudNamespace] {
	return attribute.Table[*v1alpha1.CloudNamespace]{
		attribute.Text("name",
			schema.StringAttribute{
				MarkdownDescription: "Name of the namespace. Those of Kubernetes (`default`, `kube-*`), of " +
					"OpenShift (`openshift-*`) and of the agent (`open-cluster-management*`, `muster-*`) are " +
					"refused. Changing it replaces the cloud.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{attribute.ValidName("namespace"), notReserved()},
			},
			func(n *v1alpha1.CloudNamespace) *string { return &n.Name }),
		attribute.TextMap("labels", attribute.Labels("Labels of the namespace in each cluster.", nil),
			func(n *v1alpha1.CloudNamespace) *map[string]string { return &n.Labels }).BesideOthers(),
		attribute.TextMap("annotations", attribute.Annotations("Annotations of the namespace in each cluster."),
			func(n *v1alpha1.CloudNamespace) *map[string]string { return &n.Annotations }).BesideOthers(),
		attribute.Text("existing", attribute.Choice("What to do in a cluster that has the namespace already. "+
			"`Refuse`: the cloud has no part in that cluster, which `problems` then names. "+
			"`Adopt`: the namespace is used as it is, with its content. Defaults to `Refuse`.",
			v1alpha1.ExistingRefuse, v1alpha1.ExistingAdopt),
			func(n *v1alpha1.CloudNamespace) *v1alpha1.Existing { return &n.Existing }),
		attribute.Text("on_delete", attribute.Choice("What becomes of the namespace in a cluster when the cloud is "+
			"destroyed, or when the cluster is not selected any more. `Keep`: it stays, with all that is in it. "+
			"`Delete`: it goes, with all that is in it. An adopted namespace always stays. Defaults to `Keep`.",
			v1alpha1.OnDeleteKeep, v1alpha1.OnDeleteDelete),
			func(n *v1alpha1.CloudNamespace) *v1alpha1.OnDelete { return &n.OnDelete }),
	}
}

func grantTable() attribute.Table[*v1alpha1.Grant] {
	subjects := func(description string) schema.SetAttribute {
		return attribute.OptionalTextSet(description, setvalidator.SizeBetween(1, maxSubjects),
			setvalidator.ValueStringsAre(attribute.LengthBetween(1, 253)))
	}
	return attribute.Table[*v1alpha1.Grant]{
		attribute.Text("role",
			attribute.Optional("Name of the `muster_access_role` that is granted. Either this or `rules`.",
				attribute.ValidObjectName("access role name")),
			func(g *v1alpha1.Grant) *string { return &g.Role }),
		rulesField("Rules that are granted, in place of a role. Who writes them needs all of these rights on the hub, "+
			"or the verb `escalate` on `accessroles` there.", false, maxGrantRules,
			func(g *v1alpha1.Grant) *[]rbacv1.PolicyRule { return &g.Rules }),
		attribute.Text("scope", attribute.Choice("How far the grant reaches: `Namespace` for the cloud's namespace, "+
			"`Cluster` for all of each cluster. Defaults to "+
			"`Namespace`.", v1alpha1.ScopeNamespace, v1alpha1.ScopeCluster),
			func(g *v1alpha1.Grant) *v1alpha1.GrantScope { return &g.Scope }),
		attribute.TextSet("users", subjects("Users of the hub, by the name that `kubectl auth whoami` prints there."),
			func(g *v1alpha1.Grant) *[]string { return &g.Users }),
		attribute.TextSet("groups", subjects("Groups of users of the hub."),
			func(g *v1alpha1.Grant) *[]string { return &g.Groups }),
	}
}

// bothModes are the ways in that are allowed by default.
func bothModes() types.Set {
	return attribute.StringSetValue([]string{string(v1alpha1.AccessCertificate), string(v1alpha1.AccessToken)})
}

func accessTable() attribute.Table[*v1alpha1.CloudAccess] {
	return attribute.Table[*v1alpha1.CloudAccess]{
		attribute.TextSet("modes",
			schema.SetAttribute{
				MarkdownDescription: "The ways in that are allowed: `Certificate`, a client certificate that the " +
					"cluster signs, " +
					"and `Token`, a service account's token for clusters that sign none, as on EKS. Both by default.",
				Optional: true, Computed: true, Default: setdefault.StaticValue(bothModes()),
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1),
					setvalidator.ValueStringsAre(attribute.OneOf(v1alpha1.AccessCertificate, v1alpha1.AccessToken)...),
				},
			},
			func(a *v1alpha1.CloudAccess) *[]v1alpha1.AccessMode { return &a.Modes }),
		lifetimeField("default_lifetime", "How long access lasts when a request does not say", defaultLifetime,
			func(a *v1alpha1.CloudAccess) *int32 { return &a.DefaultLifetimeSeconds }),
		lifetimeField("max_lifetime", "How long access may last", defaultMaxLifetime,
			func(a *v1alpha1.CloudAccess) *int32 { return &a.MaxLifetimeSeconds }),
		attribute.Text("key_policy", attribute.Choice("Who makes the keys. `UserHeld`: each user, so that no key "+
			"ever leaves its user. `HubMade`: the hub makes one for each user that the grants name, as EMCO's DCM "+
			"does, and hands it out inside the kubeconfig of `muster access kubeconfig`. Defaults to `UserHeld`.",
			v1alpha1.KeyUserHeld, v1alpha1.KeyHubMade),
			func(a *v1alpha1.CloudAccess) *v1alpha1.KeyPolicy { return &a.KeyPolicy }),
		attribute.Number("max_requests_per_user",
			schema.Int64Attribute{
				MarkdownDescription: fmt.Sprintf("How many access requests of one user may be alive, per cluster of "+
					"the cloud, 1 to 1000. Defaults to `%d`.", defaultRequests),
				Optional: true, Computed: true, Default: int64default.StaticInt64(defaultRequests),
				Validators: []validator.Int64{int64validator.Between(1, 1000)},
			},
			func(a *v1alpha1.CloudAccess) *int32 { return &a.MaxRequestsPerUser }),
	}
}

// lifetimeField is a duration that the API has in seconds.
func lifetimeField(
	name, description, standard string, at func(*v1alpha1.CloudAccess) *int32,
) attribute.Field[*v1alpha1.CloudAccess] {
	schema := attribute.Optional(fmt.Sprintf("%s, such as `30m` or `12h`: whole seconds from `10m` to `8760h`. "+
		"Defaults to `%s`.", description, standard), access.ValidLifetime())
	schema.Computed, schema.Default = true, stringdefault.StaticString(standard)
	return attribute.Seconds(name, schema, at)
}

// cloudStatus are the attributes that the hub reports.
func cloudStatus() attribute.Table[logicalCloud] {
	type (
		counts  = v1alpha1.CloudClusters
		problem = v1alpha1.FailingCluster
	)
	return attribute.Table[logicalCloud]{
		attribute.Reported("id",
			attribute.Kept("The cloud as `namespace/name`, which `logical_cloud` of access requests takes. It is "+
				"known once the cloud exists."),
			func(cloud logicalCloud) types.String {
				return types.StringValue(cloud.Namespace + "/" + cloud.Name)
			}).Once(),
		attribute.ReportedObject("clusters", "How many clusters the cloud has, as last read.",
			func(cloud logicalCloud) counts { return cloud.Status.Clusters },
			attribute.ReportedNumber("selected", "Clusters that the placements select.",
				func(c counts) int32 { return c.Selected }),
			attribute.ReportedNumber("ready", "Those of them that have all of the cloud's objects.",
				func(c counts) int32 { return c.Ready }),
			attribute.ReportedNumber("failed", "Those of them that can't have them.",
				func(c counts) int32 { return c.Failed })),
		attribute.ReportedObjects("problems", "Up to 10 clusters that are not ready, as last read, with the reason.",
			func(cloud logicalCloud) []problem { return cloud.Status.Clusters.Failing },
			attribute.ReportedText("managed_cluster", "Name of the cluster.", func(p problem) string { return p.Name }),
			attribute.ReportedText("reason", "Reason in one word, such as `NamespaceExists`.",
				func(p problem) string { return p.Reason }),
			attribute.ReportedText("message", "Reason in a sentence, and what to do.",
				func(p problem) string { return p.Message })),
	}
}

// validQuantity admits Kubernetes' quantities that are not negative.
func validQuantity() validator.String {
	const description = "a quantity such as 400, 500m or 10Gi"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 {
			return "Invalid quantity", fmt.Sprintf("%s is %q, but it takes %s.", attribute.Place(at), text, description)
		}
		return "", ""
	})
}

// notReserved refuses namespaces that no cloud may have.
func notReserved() validator.String {
	return attribute.ValidText("no namespace of Kubernetes, of OpenShift or of the "+
		"agent", func(at path.Path, name string) (summary, detail string) {
		if why := muster.ReservedNamespace(name); why != "" {
			return "Reserved namespace", fmt.Sprintf("%s is %q, which the hub refuses: %s. Choose a namespace for "+
				"the cloud alone.", attribute.Place(at), name, why)
		}
		return "", ""
	})
}

// Quotas are one list in the API, and two maps in Terraform.

// setQuotas writes the limits, in the order of the quotas' names. What is no quantity is
// left out: validation refuses it.
func setQuotas(limits types.Map, cloud logicalCloud) {
	for _, name := range slices.Sorted(maps.Keys(limits.Elements())) {
		quota := v1alpha1.CloudQuota{Name: name, Hard: corev1.ResourceList{}}
		values, _ := limits.Elements()[name].(types.Map)
		for key, text := range attribute.StringMap(values) {
			if q, err := resource.ParseQuantity(text); err == nil {
				quota.Hard[corev1.ResourceName(key)] = q
			}
		}
		cloud.Spec.Quotas = append(cloud.Spec.Quotas, quota)
	}
}

// setQuotaScopes adds the scopes to the quotas.
func setQuotaScopes(scopes types.Map, cloud logicalCloud) {
	for i := range cloud.Spec.Quotas {
		quota := &cloud.Spec.Quotas[i]
		set, ok := scopes.Elements()[quota.Name].(types.Set)
		if !ok {
			continue
		}
		for _, scope := range attribute.Sorted(attribute.StringList(set)) {
			quota.Scopes = append(quota.Scopes, corev1.ResourceQuotaScope(scope))
		}
	}
}

func quotasOf(cloud logicalCloud) types.Map {
	all := map[string]attr.Value{}
	for _, quota := range cloud.Spec.Quotas {
		texts := map[string]string{}
		for key, q := range quota.Hard {
			texts[string(key)] = q.String()
		}
		all[quota.Name] = attribute.StringMapValue(texts)
	}
	return mapOrNull(types.MapType{ElemType: types.StringType}, all)
}

func quotaScopesOf(cloud logicalCloud) types.Map {
	all := map[string]attr.Value{}
	for _, quota := range cloud.Spec.Quotas {
		var names []string
		for _, scope := range quota.Scopes {
			names = append(names, string(scope))
		}
		if len(names) > 0 {
			all[quota.Name] = attribute.StringSetValue(names)
		}
	}
	return mapOrNull(types.SetType{ElemType: types.StringType}, all)
}

// mapOrNull is null where there are no elements.
func mapOrNull(of attr.Type, elements map[string]attr.Value) types.Map {
	if len(elements) == 0 {
		return types.MapNull(of)
	}
	return types.MapValueMust(of, elements)
}
