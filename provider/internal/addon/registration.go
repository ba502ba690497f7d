package addon

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
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
		attribute.ObjectPointer("kube_client",
			schema.SingleNestedAttribute{
				MarkdownDescription: "A credential for the hub's API, which the agent finds as a kubeconfig at the " +
					"path in `HUB_KUBECONFIG`. `{}` is one without any rights of its own.",
				Optional: true,
			}, kubeClientOf, hubPermissionsField()).
			Sets(func(r *v1alpha1.RegistrationSpec) { r.Type = v1alpha1.RegistrationTypeKubeClient }),
		attribute.ObjectPointer("custom_signer",
			schema.SingleNestedAttribute{
				MarkdownDescription: "A client certificate for a service of the add-on's own, signed by the add-on's " +
					"authority.",
				Optional: true,
			},
			func(r *v1alpha1.RegistrationSpec) **v1alpha1.CustomSignerRegistrationConfig { return &r.CustomSigner },
			customSignerTable()...).
			Sets(func(r *v1alpha1.RegistrationSpec) { r.Type = v1alpha1.RegistrationTypeCustomSigner }))
}

// kubeClientOf is the configuration of a credential for the hub, which may be left out
// where it says nothing.
func kubeClientOf(r *v1alpha1.RegistrationSpec) **v1alpha1.KubeClientRegistrationConfig {
	if r.KubeClient == nil && r.Type == v1alpha1.RegistrationTypeKubeClient {
		empty := &v1alpha1.KubeClientRegistrationConfig{}
		return &empty
	}
	return &r.KubeClient
}

func hubPermissionsField() attribute.Field[*v1alpha1.KubeClientRegistrationConfig] {
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
		func(c *v1alpha1.KubeClientRegistrationConfig) *[]v1alpha1.HubPermissionConfig {
			return &c.HubPermissions
		},
		attribute.ObjectPointer("current_cluster",
			schema.SingleNestedAttribute{
				MarkdownDescription: "A role in the namespace of the agent's own cluster.",
				Optional:            true,
			},
			func(p *v1alpha1.HubPermissionConfig) **v1alpha1.CurrentClusterBindingConfig { return &p.CurrentCluster },
			attribute.Text("cluster_role_name", attribute.Required("Name of the ClusterRole.", validRoleName()),
				func(c *v1alpha1.CurrentClusterBindingConfig) *string { return &c.ClusterRoleName })).
			Sets(func(p *v1alpha1.HubPermissionConfig) { p.Type = v1alpha1.HubPermissionsBindingCurrentCluster }),
		attribute.ObjectPointer("single_namespace",
			schema.SingleNestedAttribute{
				MarkdownDescription: "A role in one namespace of the hub, the same one for the agents of all clusters.",
				Optional:            true,
			},
			func(p *v1alpha1.HubPermissionConfig) **v1alpha1.SingleNamespaceBindingConfig {
				return &p.SingleNamespace
			},
			attribute.Text("namespace", attribute.Required("Namespace on the hub.", attribute.ValidName("namespace")),
				func(s *v1alpha1.SingleNamespaceBindingConfig) *string { return &s.Namespace }),
			roleRefField()).
			Sets(func(p *v1alpha1.HubPermissionConfig) { p.Type = v1alpha1.HubPermissionsBindingSingleNamespace }))
}

func roleRefField() attribute.Field[*v1alpha1.SingleNamespaceBindingConfig] {
	return attribute.Object("role_ref",
		schema.SingleNestedAttribute{MarkdownDescription: "The role.", Required: true},
		func(s *v1alpha1.SingleNamespaceBindingConfig) *v1alpha1.RoleRef { return &s.RoleRef },
		attribute.Text("kind",
			schema.StringAttribute{
				MarkdownDescription: "`Role`, of that namespace, or `ClusterRole`. Defaults to `Role`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString("Role"),
				Validators: attribute.OneOf("Role", "ClusterRole"),
			},
			func(r *v1alpha1.RoleRef) *string { return &r.Kind }),
		attribute.Text("name", attribute.Required("Name of the role.", validRoleName()),
			func(r *v1alpha1.RoleRef) *string { return &r.Name })).
		Sets(func(s *v1alpha1.SingleNamespaceBindingConfig) { s.RoleRef.APIGroup = rbacv1.GroupName })
}

func customSignerTable() attribute.Table[*v1alpha1.CustomSignerRegistrationConfig] {
	texts := func(description string) schema.ListAttribute {
		return schema.ListAttribute{
			MarkdownDescription: description, Optional: true,
			Validators: []validator.List{listvalidator.ValueStringsAre(attribute.NotEmpty())},
		}
	}
	return attribute.Table[*v1alpha1.CustomSignerRegistrationConfig]{
		attribute.Text("signer_name", attribute.Required("Name of the signer, such as "+
			"`example.com/metrics`.", validSigner()),
			func(c *v1alpha1.CustomSignerRegistrationConfig) *string { return &c.SignerName }),
		attribute.ObjectPointer("subject",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Who the certificate is for. If omitted, the agent of the add-on in its " +
					"cluster, and its groups. " +
					"If set, it counts as a whole: what it leaves out is not in the certificate.",
				Optional: true,
			},
			func(c *v1alpha1.CustomSignerRegistrationConfig) **v1alpha1.Subject { return &c.Subject },
			attribute.Text("user", attribute.Optional("Common name.", attribute.NotEmpty()),
				func(s *v1alpha1.Subject) *string { return &s.User }),
			attribute.TextList("groups", texts("Organizations."),
				func(s *v1alpha1.Subject) *[]string { return &s.Groups }),
			attribute.TextList("organization_units", texts("Organizational units."),
				func(s *v1alpha1.Subject) *[]string { return &s.OrganizationUnits })),
		attribute.Object("signing_ca",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Secret on the hub with the authority's certificate and key, as `tls.crt` and " +
					"`tls.key`. The key has to be an RSA key. A Role in its namespace has to let the hub's service " +
					"account `addon-manager-controller-sa` of the namespace `open-cluster-management-hub` get it.",
				Required: true,
			},
			func(c *v1alpha1.CustomSignerRegistrationConfig) *v1alpha1.SigningCARef { return &c.SigningCA },
			attribute.Text("namespace",
				attribute.Optional("Namespace of the Secret. If omitted, that of the hub's add-on manager, "+
					"`open-cluster-management-hub`.",
					attribute.ValidName("namespace")),
				func(r *v1alpha1.SigningCARef) *string { return &r.Namespace }),
			attribute.Text("name", attribute.Required("Name of the Secret.", attribute.ValidObjectName("secret name")),
				func(r *v1alpha1.SigningCARef) *string { return &r.Name })),
	}
}

// checkRegistrations refuses two credentials of one kind, whose files would be in the
// same place.
func checkRegistrations(at path.Path, list types.List, diags *diag.Diagnostics) {
	seen := map[string]int{}
	for i, element := range list.Elements() {
		registration, ok := element.(types.Object)
		if !ok || registration.IsNull() || registration.IsUnknown() {
			continue
		}
		key := ""
		if client := registration.Attributes()["kube_client"]; client != nil && !client.IsNull() && !client.IsUnknown() {
			key = addon.KubeClientSigner
		}
		if signer, ok := registration.Attributes()["custom_signer"].(types.Object); ok && !signer.IsNull() {
			if name, ok := signer.Attributes()["signer_name"].(types.String); ok {
				key = name.ValueString()
			}
		}
		if first, twice := seen[key]; twice && key != "" {
			diags.AddAttributeError(at.AtListIndex(i), "Duplicate registration",
				fmt.Sprintf("%s and %s are for the same signer, %s, so their files would be in the same place. Make "+
					"one of them.",
					attribute.Place(at.AtListIndex(first)), attribute.Place(at.AtListIndex(i)), key))
			continue
		}
		seen[key] = i
	}
}

// signerName is what the API takes for a signer's name.
var signerName = regexp.MustCompile(`^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-.]+$`)

const maxSignerName = 571

func validSigner() validator.String {
	const description = "the name of a signer: a domain, a slash and a name in lower case, such as example.com/metrics"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		switch {
		case text == addon.KubeClientSigner:
			return "Signer of the hub's API", fmt.Sprintf("%s is %q, which is the hub's own. For a credential for "+
				"the hub's API set kube_client in place of custom_signer.", attribute.Place(at), text)
		case !signerName.MatchString(text) || len(text) > maxSignerName:
			return "Invalid signer", fmt.Sprintf("%s is %q, but it takes %s, with at most %d characters.",
				attribute.Place(at), text, description, maxSignerName)
		}
		return "", ""
	})
}

// roleName is what the hub takes for the name of a role.
var roleName = regexp.MustCompile(`^[^/%\s]+$`)

func validRoleName() validator.String {
	return attribute.ValidText("the name of a role", func(at path.Path, text string) (summary, detail string) {
		if roleName.MatchString(text) && text != "." && text != ".." && len(text) <= 253 {
			return "", ""
		}
		return "Invalid role", fmt.Sprintf("%s is %q, but it takes the name of a role, without spaces, slashes and "+
			"percent signs.",
			attribute.Place(at), text)
	})
}
