package logicalcloud

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type accessRole = *v1alpha1.AccessRole

// Role is muster_access_role.
func Role() crud.Declared {
	return &crud.Kind[accessRole]{
		Type: "access_role", Noun: "access role", Empty: &v1alpha1.AccessRole{},
		Description: "A role in the fleet administrator's catalogue: what the grants of logical clouds may name. " +
			"Who grants it needs the verb `bind` on it (`accessroles` in the API group `muster-fleet.io`) on the " +
			"hub, and for the scope `Cluster` the verb `grant-cluster-scope`, too. A change of its rules reaches " +
			"every cluster of every cloud that grants it.",
		Keys: []crud.Key{{
			Name: "name", Description: "Name of the role, by which grants refer to it. Changing it replaces the role.",
			Valid: attribute.ValidObjectName("access role name"),
		}},
		Table: attribute.Table[accessRole]{
			attribute.LabelsField[accessRole]("Labels of the role."),
			attribute.AnnotationsField[accessRole]("Annotations of the role."),
			rulesField("What the role allows, as the rules of a Kubernetes ClusterRole.", true, maxRules,
				func(role accessRole) *[]rbacv1.PolicyRule { return &role.Rules }).At("rules"),
			attribute.Flag("cluster_scope_allowed",
				schema.BoolAttribute{
					MarkdownDescription: "Whether grants may give the role in all of a cluster, and not in the " +
						"cloud's namespace alone. Defaults to `false`.",
					Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				},
				func(role accessRole) *bool { return &role.ClusterScopeAllowed }).At("clusterScopeAllowed"),
		},
		Hooks: crud.Hooks[accessRole]{Validate: validateRole},
		List: &crud.List[accessRole]{
			Plural: "access roles", Objects: &v1alpha1.AccessRoleList{}, Needs: hub.AccessNeeds,
			Describe: func(role accessRole) string { return crud.Count(len(role.Rules), "rule") },
		},
	}
}

// validateRole refuses rules that no API server takes.
func validateRole(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var list types.List
	diags.Append(config.GetAttribute(ctx, path.Root("rules"), &list)...)
	checkRules(path.Root("rules"), list, false, diags)
}
