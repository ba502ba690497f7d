package addon

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// The credentials and rights of an add-on's agent on the hub.

// registrationField are the credentials in a template.
func registrationField() attribute.Field[*v1alpha1.AddOnTemplate] {
	return attribute.Objects("registration",
		schema.ListNestedAttribute{
			MarkdownDescription: "Credentials that the agent gets: for the hub's API, for services of the add-on's " +
				"own, or both. If omitted, none.",
			Optional:   true,
			Validators: []validator.List{listvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedAttributeObject{
				Validators: []validator.Object{attribute.ExactlyOne("kube_client", "custom_signer")},
			},
		},
		func(t *v1alpha1.AddOnTemplate) *[]v1alpha1.RegistrationSpec { return &t.Spec.Registration },
		attribute.ObjectPointer("kube_client", attribute.OptionalObject("A credential for the hub's API, which the "+
			"agent finds as a kubeconfig at the path in `HUB_KUBECONFIG`. `{}` is one without any rights of its "+
			"own."), kubeClientOf, hubPermissionsField()).
			Sets(func(r registration) { r.Type = v1alpha1.RegistrationTypeKubeClient }),
		attribute.ObjectPointer("custom_signer", attribute.OptionalObject("A client certificate for a service of "+
			"the add-on's own, signed by the add-on's authority."),
			func(r registration) **v1alpha1.CustomSignerRegistrationConfig { return &r.CustomSigner },
			customSignerTable()...).
			Sets(func(r registration) { r.Type = v1alpha1.RegistrationTypeCustomSigner }))
}

// kubeClientOf is the configuration of a credential for the hub, which may be left out
// where it says nothing.
func kubeClientOf(r registration) **v1alpha1.KubeClientRegistrationConfig {
	if r.KubeClient == nil && r.Type == v1alpha1.RegistrationTypeKubeClient {
		empty := &v1alpha1.KubeClientRegistrationConfig{}
		return &empty
	}
	return &r.KubeClient
}

func hubPermissionsField() attribute.Field[kubeClient] {
	return attribute.Objects("hub_permissions",
		schema.ListNestedAttribute{
			MarkdownDescription: "Roles that the agent has on the hub. The hub gives away only what its service " +
				"account `addon-manager-controller-sa` has itself: an administrator gives it a role by the label " +
				"`open-cluster-management.io/aggregate-to-addon-manager: \"true\"` on the ClusterRole. Otherwise " +
				"the add-on's condition `RegistrationApplied` names the rights that are missing.",
			Optional:   true,
			Validators: []validator.List{listvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedAttributeObject{
				Validators: []validator.Object{attribute.ExactlyOne("current_cluster", "single_namespace")},
			},
		},
		func(c kubeClient) *[]v1alpha1.HubPermissionConfig { return &c.HubPermissions },
		attribute.ObjectPointer("current_cluster",
			attribute.OptionalObject("A role in the namespace of the agent's own cluster."),
			func(p permission) **v1alpha1.CurrentClusterBindingConfig { return &p.CurrentCluster },
			attribute.Text("cluster_role_name", attribute.Required("Name of the ClusterRole.", validRoleName()),
				func(c *v1alpha1.CurrentClusterBindingConfig) *string { return &c.ClusterRoleName })).
			Sets(func(p permission) { p.Type = v1alpha1.HubPermissionsBindingCurrentCluster }),
		attribute.ObjectPointer("single_namespace",
			attribute.OptionalObject("A role in one namespace of the hub, the same one for the agents of all "+
				"clusters."),
			func(p permission) **v1alpha1.SingleNamespaceBindingConfig { return &p.SingleNamespace },
			attribute.Text("namespace", attribute.Required("Namespace on the hub.", attribute.ValidName("namespace")),
				func(s oneNamespace) *string { return &s.Namespace }),
			roleRefField()).
			Sets(func(p permission) { p.Type = v1alpha1.HubPermissionsBindingSingleNamespace }))
}

func roleRefField() attribute.Field[oneNamespace] {
	return attribute.Object("role_ref", attribute.RequiredObject("The role."),
		func(s oneNamespace) *v1alpha1.RoleRef { return &s.RoleRef },
		attribute.Text("kind",
			attribute.Choice("`Role`, of that namespace, or `ClusterRole`. Defaults to `Role`.", "Role", "ClusterRole"),
			func(r *v1alpha1.RoleRef) *string { return &r.Kind }),
		attribute.Text("name", attribute.Required("Name of the role.", validRoleName()),
			func(r *v1alpha1.RoleRef) *string { return &r.Name })).
		Sets(func(s oneNamespace) { s.RoleRef.APIGroup = rbacv1.GroupName })
}

type (
	registration = *v1alpha1.RegistrationSpec
	kubeClient   = *v1alpha1.KubeClientRegistrationConfig
	permission   = *v1alpha1.HubPermissionConfig
	oneNamespace = *v1alpha1.SingleNamespaceBindingConfig
	customSigner = *v1alpha1.CustomSignerRegistrationConfig
)

func customSignerTable() attribute.Table[customSigner] {
	texts := func(description string) schema.ListAttribute {
		return attribute.OptionalTexts(description, listvalidator.ValueStringsAre(attribute.NotEmpty()))
	}
	return attribute.Table[customSigner]{
		attribute.Text("signer_name", attribute.Required("Name of the signer, such as "+
			"`example.com/metrics`.", validSigner()),
			func(c customSigner) *string { return &c.SignerName }),
		attribute.ObjectPointer("subject", attribute.OptionalObject("Who the certificate is for. If omitted, the "+
			"agent of the add-on in its cluster, and its groups. If set, it counts as a whole: what it leaves out "+
			"is not in the certificate."),
			func(c customSigner) **v1alpha1.Subject { return &c.Subject },
			attribute.Text("user", attribute.Optional("Common name.", attribute.NotEmpty()),
				func(s *v1alpha1.Subject) *string { return &s.User }),
			attribute.TextList("groups", texts("Organizations."),
				func(s *v1alpha1.Subject) *[]string { return &s.Groups }),
			attribute.TextList("organization_units", texts("Organizational units."),
				func(s *v1alpha1.Subject) *[]string { return &s.OrganizationUnits })),
		attribute.Object("signing_ca", attribute.RequiredObject("Secret on the hub with the authority's certificate "+
			"and key, as `tls.crt` and `tls.key`. The key has to be an RSA key. A Role in its namespace has to let "+
			"the hub's service account `addon-manager-controller-sa` of the namespace `open-cluster-management-hub` "+
			"get it."),
			func(c customSigner) *v1alpha1.SigningCARef { return &c.SigningCA },
			attribute.Text("namespace", attribute.Optional("Namespace of the Secret. If omitted, that of the hub's "+
				"add-on manager, `open-cluster-management-hub`.",
				attribute.ValidName("namespace")),
				func(r *v1alpha1.SigningCARef) *string { return &r.Namespace }),
			attribute.Text("name", attribute.Required("Name of the Secret.", attribute.ValidObjectName("secret name")),
				func(r *v1alpha1.SigningCARef) *string { return &r.Name })),
	}
}

// checkRegistrations refuses two credentials of one kind, whose files would be in the
// same place.
func checkRegistrations(at path.Path, list types.List, diags *diag.Diagnostics) {
	seen := attribute.Seen{}
	for i, registration := range attribute.EachObject(list) {
		key := ""
		if client := registration["kube_client"]; !client.IsNull() && !client.IsUnknown() {
			key = addon.KubeClientSigner
		}
		if registration.IsSet("custom_signer") {
			key = registration.Object("custom_signer").Text("signer_name")
		}
		if key != "" {
			seen.Again(key, at.AtListIndex(i), "Duplicate registration",
				"are for the same signer, "+key+", so their files would be in the same place. Make one of them.", diags)
		}
	}
}

// signerName is what the API takes for a signer's name.
var signerName = regexp.MustCompile(`^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-.]+$`)

const maxSignerName = 571

func validSigner() validator.String {
	return attribute.Fitting("Invalid signer",
		fmt.Sprintf("the name of a signer: a domain, a slash and a name in lower case, such as example.com/metrics, "+
			"with at most %d characters", maxSignerName),
		func(text string) bool {
			return text != addon.KubeClientSigner && len(text) <= maxSignerName && signerName.MatchString(text)
		},
		func(text string) string {
			if text == addon.KubeClientSigner {
				return "It is the hub's own. For a credential for the hub's API set kube_client in place of " +
					"custom_signer."
			}
			return ""
		})
}

// roleName is what the hub takes for the name of a role.
var roleName = regexp.MustCompile(`^[^/%\s]+$`)

func validRoleName() validator.String {
	return attribute.Fitting("Invalid role", "the name of a role, without spaces, slashes and percent signs",
		func(text string) bool {
			return roleName.MatchString(text) && text != "." && text != ".." && len(text) <= 253
		}, nil)
}
