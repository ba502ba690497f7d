package attribute

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// TextAttribute is a text that the hub reports.
func TextAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Computed: true}
}

// FlagAttribute is true or false, as the hub or the provider reports it.
func FlagAttribute(description string) schema.BoolAttribute {
	return schema.BoolAttribute{MarkdownDescription: description, Computed: true}
}

// TextsAttribute is a list of texts that the hub or the provider reports.
func TextsAttribute(description string) schema.ListAttribute {
	return schema.ListAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
}

// Kept is a text that the hub or the provider makes up once.
func Kept(description string) schema.StringAttribute {
	s := TextAttribute(description)
	s.PlanModifiers = []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return s
}

// ForceAttribute is on every resource that applies an object.
func ForceAttribute() schema.BoolAttribute {
	return OptionalFlag("What to do about fields that another field manager, such as a controller or a person " +
		"with kubectl, has set to other values. If omitted or `true`, they are taken over: the plan of an " +
		"update shows the difference and names their managers, and creating an object that already exists is " +
		"refused unless `adopt` is set. With `false` they are never taken over: the plan fails and names fields " +
		"and managers, or the apply, where the hub could not be asked while planning.")
}

// IdentitySchema has attributes that an import needs, all texts.
func IdentitySchema(attributes ...string) identityschema.Schema {
	s := identityschema.Schema{Attributes: map[string]identityschema.Attribute{}}
	for _, name := range attributes {
		s.Attributes[name] = identityschema.StringAttribute{RequiredForImport: true}
	}
	return s
}

// ImportedNames takes the object's names out of an import by ID (name, or
// first/second) or by identity, in the order of attributes.
func ImportedNames(
	ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics, attributes ...string,
) []string {
	names := make([]string, len(attributes))
	if req.ID == "" {
		for i, attribute := range attributes {
			diags.Append(req.Identity.GetAttribute(ctx, path.Root(attribute), &names[i])...)
		}
		return names
	}
	parts := strings.SplitN(req.ID, "/", len(attributes))
	if len(parts) != len(attributes) || strings.Contains(parts[len(parts)-1], "/") || parts[0] == "" ||
		parts[len(parts)-1] == "" {
		diags.AddError("Invalid import ID",
			fmt.Sprintf("%q does not name an object: the ID has the form %s.", req.ID,
				strings.ToUpper(strings.Join(attributes,
					"/"))))
		return names
	}
	copy(names, parts)
	return names
}

// The timeouts where the configuration sets none.
const (
	DefaultWait   = 10 * time.Minute
	DefaultDelete = 10 * time.Minute
)

// TimeoutText describes a timeout. what may take that long; standard is the default.
func TimeoutText(what string, standard time.Duration) string {
	return fmt.Sprintf("How long %s may take, such as `90s` or `15m`. Defaults to `%s`.", what, ShortDuration(standard))
}

// ShortDuration writes 10m for 10m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "m0s")
	if text != d.String() {
		text += "m"
	}
	return text
}

// AdoptAttribute is on every resource that makes an object of the hub.
func AdoptAttribute() schema.BoolAttribute {
	return OptionalFlag("Whether to take over an existing object on the hub that differs from the " +
		"configuration, or that another Terraform resource has taken over in the meantime. Its differing values " +
		"are then overwritten, and fields that another Terraform configuration has set are removed. If omitted " +
		"or `false`, such an object is an error that names the differences and the owner. An existing object " +
		"that equals the configuration is always taken over. The alternative is to import the object.")
}

// AcceptanceOwnerAnnotation is the mark of the one Terraform resource that decides
// whether a cluster is accepted.
const AcceptanceOwnerAnnotation = cluster.TerraformOwnerAnnotation + "-of-acceptance"

// ReservedAnnotation tells why an annotation can't be set by configurations.
func ReservedAnnotation(key string) string {
	switch key {
	case cluster.TerraformOwnerAnnotation, AcceptanceOwnerAnnotation:
		return "the provider marks its objects with it"
	case work.TraceparentAnnotation:
		return "the provider notes with it which trace has written the object"
	case muster.ClusterUIDAnnotation:
		return "muster_klusterlet and the hub note with it which cluster has the agent"
	case muster.AddOnsAnnotation, muster.PreviewsAskedAnnotation:
		return "the hub tells the cluster's agent with it what to look at"
	case muster.RolloutApprovalsAnnotation, muster.ApproveRolloutAnnotation:
		return "the hub notes with it who has approved a rollout; use the action muster_approve_rollout"
	case muster.ClientIDAnnotation:
		return "use the attribute client_id of muster_managed_cluster"
	}
	return ""
}

// WithoutMark are annotations as people see them.
func WithoutMark(annotations map[string]string) map[string]string {
	shown := map[string]string{}
	for key, value := range annotations {
		if ReservedAnnotation(key) == "" {
			shown[key] = value
		}
	}
	return shown
}

// Identifying is a required text that names the object: changing it makes another
// one.
func Identifying(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: description,
		Required:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          validators,
	}
}

// Labels are the labels of the object. reserved, which may be nil, tells why a key
// can't be set here, or "".
func Labels(description string, reserved func(key string) string) schema.MapAttribute {
	return OptionalTextMap(description, ValidLabels(reserved))
}

// Annotations are the annotations of the object.
func Annotations(description string) schema.MapAttribute {
	return OptionalTextMap(description, ValidAnnotations())
}

// Ready tells whether the wait of the resource was met.
func Ready(description string) schema.BoolAttribute {
	return schema.BoolAttribute{MarkdownDescription: description, Computed: true}
}

// ImportableAnnotation reports whether an import may take an annotation over: it
// belongs to people, and not to this provider or to kubectl apply.
func ImportableAnnotation(key string) bool {
	return key != corev1.LastAppliedConfigAnnotation && ReservedAnnotation(key) == ""
}
