package logicalcloud

import (
	"fmt"
	"time"

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
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// The limits of the API.
const (
	maxPlacements = 16
	maxQuotas     = 16
	maxGrants     = 64
	maxSubjects   = 256
	minLifetime   = 10 * time.Minute
	maxLifetime   = 365 * 24 * time.Hour
)

// The API's defaults of access.
const (
	defaultLifetime    = "8h"
	defaultMaxLifetime = "24h"
	defaultRequests    = 10
)

// cloudAttributes are those of the cloud itself.
func cloudAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"namespace": attribute.Identifying("Namespace on the hub, that of the placements. It has to exist, for example as a `muster_namespace`. Changing it replaces the cloud.",
			attribute.ValidName("namespace")),
		"name": attribute.Identifying("Name of the cloud. Changing it replaces the cloud.",
			attribute.ValidObjectName("logical cloud name")),
		"labels":      attribute.Labels("Labels of the cloud.", nil),
		"annotations": attribute.Annotations("Annotations of the cloud."),
		"placements": schema.SetAttribute{
			MarkdownDescription: fmt.Sprintf("Names of the placements, in the same namespace, that select the clusters; 1 to %d. A cluster that several of them select counts once.", maxPlacements),
			Required:            true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeBetween(1, maxPlacements), setvalidator.ValueStringsAre(attribute.ValidName("placement name"))},
		},
		"cluster_namespace": clusterNamespaceAttribute(),
		"quotas": schema.MapAttribute{
			MarkdownDescription: "Resource quotas in the namespace of each cluster, by name, each as a map of limits: `{ main = { \"limits.cpu\" = \"400\", pods = \"50\" } }`. Each cluster counts by itself.",
			Optional:            true, ElementType: types.MapType{ElemType: types.StringType},
			Validators: []validator.Map{
				mapvalidator.SizeBetween(1, maxQuotas), mapvalidator.KeysAre(attribute.ValidName("quota name")),
				mapvalidator.ValueMapsAre(mapvalidator.SizeAtLeast(1), mapvalidator.ValueStringsAre(validQuantity())),
			},
		},
		"quota_scopes": schema.MapAttribute{
			MarkdownDescription: "Limits quotas to some pods, by the quota's name: `{ main = [\"NotTerminating\"] }`. Scopes are `Terminating`, `NotTerminating`, `BestEffort`, `NotBestEffort` and `CrossNamespacePodAffinity`.",
			Optional:            true, ElementType: types.SetType{ElemType: types.StringType},
			Validators: []validator.Map{
				mapvalidator.SizeAtLeast(1),
				mapvalidator.ValueSetsAre(setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.OneOf(
					corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
					corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity)...)),
			},
		},
		"grants": grantsAttribute(),
		"access": accessAttribute(),
	}
}

func clusterNamespaceAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "The cloud's namespace in each cluster.",
		Required:            true,
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the namespace. Those of Kubernetes (`default`, `kube-*`), of OpenShift (`openshift-*`) and of the agent (`open-cluster-management*`, `muster-*`) are refused. Changing it replaces the cloud.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{attribute.ValidName("namespace"), notReserved()},
			},
			"labels":      attribute.Labels("Labels of the namespace in each cluster.", nil),
			"annotations": attribute.Annotations("Annotations of the namespace in each cluster."),
			"existing": schema.StringAttribute{
				MarkdownDescription: "What to do in a cluster that has the namespace already. `Refuse`: the cloud has no part in that cluster, which `problems` then names. `Adopt`: the namespace is used as it is, with its content. Defaults to `Refuse`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(v1alpha1.ExistingRefuse)),
				Validators: attribute.OneOf(v1alpha1.ExistingRefuse, v1alpha1.ExistingAdopt),
			},
			"on_delete": schema.StringAttribute{
				MarkdownDescription: "What becomes of the namespace in a cluster when the cloud is destroyed, or when the cluster is not selected any more. `Keep`: it stays, with all that is in it. `Delete`: it goes, with all that is in it. An adopted namespace always stays. Defaults to `Keep`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(v1alpha1.OnDeleteKeep)),
				Validators: attribute.OneOf(v1alpha1.OnDeleteKeep, v1alpha1.OnDeleteDelete),
			},
		},
	}
}

func grantsAttribute() schema.ListNestedAttribute {
	subjects := func(description string) schema.SetAttribute {
		return schema.SetAttribute{
			MarkdownDescription: description, Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeBetween(1, maxSubjects), setvalidator.ValueStringsAre(attribute.LengthBetween(1, 253))},
		}
	}
	return schema.ListNestedAttribute{
		MarkdownDescription: "Who may do what in the clusters. A user has the sum of the grants that name the user or one of the user's groups.",
		Optional:            true,
		Validators:          []validator.List{listvalidator.SizeBetween(1, maxGrants)},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"role": schema.StringAttribute{
				MarkdownDescription: "Name of the `muster_access_role` that is granted. Either this or `rules`.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidObjectName("access role name")},
			},
			"rules": rulesAttribute("Rules that are granted, in place of a role. Who writes them needs all of these rights on the hub, or the verb `escalate` on `accessroles` there.", false, maxGrantRules),
			"scope": schema.StringAttribute{
				MarkdownDescription: "How far the grant reaches: `Namespace` for the cloud's namespace, `Cluster` for all of each cluster. Defaults to `Namespace`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(v1alpha1.ScopeNamespace)),
				Validators: attribute.OneOf(v1alpha1.ScopeNamespace, v1alpha1.ScopeCluster),
			},
			"users":  subjects("Users of the hub, by the name that `kubectl auth whoami` prints there."),
			"groups": subjects("Groups of users of the hub."),
		}},
	}
}

func accessAttribute() schema.SingleNestedAttribute {
	lifetime := func(description, standard string) schema.StringAttribute {
		return schema.StringAttribute{
			MarkdownDescription: fmt.Sprintf("%s, such as `30m` or `12h`: whole seconds from `10m` to `8760h`. Defaults to `%s`.", description, standard),
			Optional:            true, Computed: true, Default: stringdefault.StaticString(standard),
			Validators: []validator.String{validLifetime()},
		}
	}
	modes := types.SetValueMust(types.StringType, []attr.Value{types.StringValue(string(v1alpha1.AccessCertificate)), types.StringValue(string(v1alpha1.AccessToken))})
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Limits how users come in.",
		Optional:            true, Computed: true,
		Default: objectdefault.StaticValue(types.ObjectValueMust(accessTypes(), map[string]attr.Value{
			"modes": modes, "default_lifetime": types.StringValue(defaultLifetime), "max_lifetime": types.StringValue(defaultMaxLifetime),
			"key_policy": types.StringValue(string(v1alpha1.KeyUserHeld)), "max_requests_per_user": types.Int64Value(defaultRequests),
		})),
		Attributes: map[string]schema.Attribute{
			"modes": schema.SetAttribute{
				MarkdownDescription: "The ways in that are allowed: `Certificate`, a client certificate that the cluster signs, and `Token`, a service account's token for clusters that sign none, as on EKS. Both by default.",
				Optional:            true, Computed: true, ElementType: types.StringType, Default: setdefault.StaticValue(modes),
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1),
					setvalidator.ValueStringsAre(attribute.OneOf(v1alpha1.AccessCertificate, v1alpha1.AccessToken)...),
				},
			},
			"default_lifetime": lifetime("How long access lasts when a request does not say", defaultLifetime),
			"max_lifetime":     lifetime("How long access may last", defaultMaxLifetime),
			"key_policy": schema.StringAttribute{
				MarkdownDescription: "Who makes the keys. `UserHeld`: each user, so that no key ever leaves its user. `HubMade`: the hub makes one for each user that the grants name, as EMCO's DCM does, and hands it out inside the kubeconfig of `muster access kubeconfig`. Defaults to `UserHeld`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(v1alpha1.KeyUserHeld)),
				Validators: attribute.OneOf(v1alpha1.KeyUserHeld, v1alpha1.KeyHubMade),
			},
			"max_requests_per_user": schema.Int64Attribute{
				MarkdownDescription: fmt.Sprintf("How many access requests of one user may be alive, per cluster of the cloud, 1 to 1000. Defaults to `%d`.", defaultRequests),
				Optional:            true, Computed: true, Default: int64default.StaticInt64(defaultRequests),
				Validators: []validator.Int64{int64validator.Between(1, 1000)},
			},
		},
	}
}

func accessTypes() map[string]attr.Type {
	return map[string]attr.Type{
		"modes": types.SetType{ElemType: types.StringType}, "default_lifetime": types.StringType, "max_lifetime": types.StringType,
		"key_policy": types.StringType, "max_requests_per_user": types.Int64Type,
	}
}

// validLifetime admits whole seconds within the API's limits.
func validLifetime() validator.String {
	const description = "a duration such as 30m or 12h, in whole seconds, from 10m to 8760h"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		d, err := time.ParseDuration(text)
		if err != nil || d < minLifetime || d > maxLifetime || d%time.Second != 0 {
			return "Invalid lifetime", fmt.Sprintf("%s is %q, but it takes %s.", attribute.Place(at), text, description)
		}
		return "", ""
	})
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
	return attribute.ValidText("no namespace of Kubernetes, of OpenShift or of the agent", func(at path.Path, name string) (summary, detail string) {
		if why := muster.ReservedNamespace(name); why != "" {
			return "Reserved namespace", fmt.Sprintf("%s is %q, which the hub refuses: %s. Choose a namespace for the cloud alone.", attribute.Place(at), name, why)
		}
		return "", ""
	})
}
