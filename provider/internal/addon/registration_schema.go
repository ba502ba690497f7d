package addon

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

func registrationAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Credentials that the agent gets: for the hub's API, for services of the add-on's own, or both. If omitted, none.",
		Optional:            true,
		Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
		NestedObject: schema.NestedAttributeObject{
			Validators: []validator.Object{attribute.ExactlyOne("kube_client", "custom_signer")},
			Attributes: map[string]schema.Attribute{
				"kube_client": schema.SingleNestedAttribute{
					MarkdownDescription: "A credential for the hub's API, which the agent finds as a kubeconfig at the path in `HUB_KUBECONFIG`. `{}` is one without any rights of its own.",
					Optional:            true,
					Attributes:          map[string]schema.Attribute{"hub_permissions": hubPermissionsAttribute()},
				},
				"custom_signer": customSignerAttribute(),
			},
		},
	}
}

func hubPermissionsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Roles that the agent has on the hub. The hub gives away only what its service account `addon-manager-controller-sa` has itself: " +
			"an administrator gives it a role by the label `open-cluster-management.io/aggregate-to-addon-manager: \"true\"` on the ClusterRole. Otherwise the add-on's condition `RegistrationApplied` names the rights that are missing.",
		Optional:   true,
		Validators: []validator.List{listvalidator.SizeAtLeast(1)},
		NestedObject: schema.NestedAttributeObject{
			Validators: []validator.Object{attribute.ExactlyOne("current_cluster", "single_namespace")},
			Attributes: map[string]schema.Attribute{
				"current_cluster": schema.SingleNestedAttribute{
					MarkdownDescription: "A role in the namespace of the agent's own cluster.",
					Optional:            true,
					Attributes: map[string]schema.Attribute{
						"cluster_role_name": schema.StringAttribute{
							MarkdownDescription: "Name of the ClusterRole.", Required: true, Validators: []validator.String{validRoleName()},
						},
					},
				},
				"single_namespace": schema.SingleNestedAttribute{
					MarkdownDescription: "A role in one namespace of the hub, the same one for the agents of all clusters.",
					Optional:            true,
					Attributes: map[string]schema.Attribute{
						"namespace": schema.StringAttribute{
							MarkdownDescription: "Namespace on the hub.", Required: true, Validators: []validator.String{attribute.ValidName("namespace")},
						},
						"role_ref": schema.SingleNestedAttribute{
							MarkdownDescription: "The role.",
							Required:            true,
							Attributes: map[string]schema.Attribute{
								"kind": schema.StringAttribute{
									MarkdownDescription: "`Role`, of that namespace, or `ClusterRole`. Defaults to `Role`.",
									Optional:            true, Computed: true, Default: stringdefault.StaticString("Role"),
									Validators: attribute.OneOf("Role", "ClusterRole"),
								},
								"name": schema.StringAttribute{MarkdownDescription: "Name of the role.", Required: true, Validators: []validator.String{validRoleName()}},
							},
						},
					},
				},
			},
		},
	}
}

func customSignerAttribute() schema.SingleNestedAttribute {
	texts := func(description string) schema.ListAttribute {
		return schema.ListAttribute{
			MarkdownDescription: description, Optional: true, ElementType: types.StringType,
			Validators: []validator.List{listvalidator.ValueStringsAre(attribute.NotEmpty())},
		}
	}
	return schema.SingleNestedAttribute{
		MarkdownDescription: "A client certificate for a service of the add-on's own, signed by the add-on's authority.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"signer_name": schema.StringAttribute{
				MarkdownDescription: "Name of the signer, such as `example.com/metrics`.", Required: true, Validators: []validator.String{validSigner()},
			},
			"subject": schema.SingleNestedAttribute{
				MarkdownDescription: "Who the certificate is for. If omitted, the agent of the add-on in its cluster, and its groups. If set, it counts as a whole: what it leaves out is not in the certificate.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"user":               schema.StringAttribute{MarkdownDescription: "Common name.", Optional: true, Validators: []validator.String{attribute.NotEmpty()}},
					"groups":             texts("Organizations."),
					"organization_units": texts("Organizational units."),
				},
			},
			"signing_ca": schema.SingleNestedAttribute{
				MarkdownDescription: "Secret on the hub with the authority's certificate and key, as `tls.crt` and `tls.key`. The key has to be an RSA key. A Role in its namespace has to let the hub's service account `addon-manager-controller-sa` of the namespace `open-cluster-management-hub` get it.",
				Required:            true,
				Attributes: map[string]schema.Attribute{
					"namespace": schema.StringAttribute{
						MarkdownDescription: "Namespace of the Secret. If omitted, that of the hub's add-on manager, `open-cluster-management-hub`.",
						Optional:            true, Validators: []validator.String{attribute.ValidName("namespace")},
					},
					"name": schema.StringAttribute{MarkdownDescription: "Name of the Secret.", Required: true, Validators: []validator.String{attribute.ValidObjectName("secret name")}},
				},
			},
		},
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
			return "Signer of the hub's API", fmt.Sprintf("%s is %q, which is the hub's own. For a credential for the hub's API set kube_client in place of custom_signer.", attribute.Place(at), text)
		case !signerName.MatchString(text) || len(text) > maxSignerName:
			return "Invalid signer", fmt.Sprintf("%s is %q, but it takes %s, with at most %d characters.", attribute.Place(at), text, description, maxSignerName)
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
		return "Invalid role", fmt.Sprintf("%s is %q, but it takes the name of a role, without spaces, slashes and percent signs.", attribute.Place(at), text)
	})
}
