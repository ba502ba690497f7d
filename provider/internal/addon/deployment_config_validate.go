package addon

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
)

// validateDeploymentConfig refuses nodes and resources that no pod can have.
func validateDeploymentConfig(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var placement types.Object
	var containers types.List
	diags.Append(config.GetAttribute(ctx, path.Root("node_placement"), &placement)...)
	diags.Append(config.GetAttribute(ctx, path.Root("resource_requirements"), &containers)...)
	if diags.HasError() {
		return
	}
	if !placement.IsNull() && !placement.IsUnknown() {
		klusterlet.CheckAgentOptions(placement.Attributes(), path.Root("node_placement"), diags)
	}
	checkContainers(path.Root("resource_requirements"), containers, diags)
}

// checkContainers refuses resources that no container can have, and two entries for
// the same containers.
func checkContainers(at path.Path, containers types.List, diags *diag.Diagnostics) {
	seen := map[string]int{}
	for i, element := range containers.Elements() {
		container, ok := element.(types.Object)
		if !ok || container.IsNull() || container.IsUnknown() {
			continue
		}
		id, _ := container.Attributes()["container_id"].(types.String)
		if first, twice := seen[id.ValueString()]; twice && !id.IsUnknown() {
			diags.AddAttributeError(at.AtListIndex(i), "Duplicate containers", fmt.Sprintf("%s and %s are both for "+
				"%q. Make one entry of them.",
				attribute.Place(at.AtListIndex(first)), attribute.Place(at.AtListIndex(i)), id.ValueString()))
		}
		if !id.IsUnknown() {
			seen[id.ValueString()] = i
		}
		if resources := container.Attributes()["resources"]; resources != nil {
			klusterlet.CheckAgentOptions(map[string]attr.Value{"resources": resources}, at.AtListIndex(i), diags)
		}
	}
}

// The API's limits of variables, in bytes.
const (
	maxVariableName = 255
	maxVariable     = 1024
)

var (
	variableName = regexp.MustCompile(`^[a-zA-Z_][_a-zA-Z0-9]*$`)
	containerID  = regexp.MustCompile(`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):[^:]+:[^:]+$`)
)

// validVariable admits names of variables.
func validVariable() validator.String {
	const description = "the name of a variable: letters, digits and underscores, without a digit in front, such as " +
		"IMAGE_TAG"
	return attribute.ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if variableName.MatchString(text) && len(text) <= maxVariableName {
			return "", ""
		}
		if name := strings.Trim(strings.TrimSpace(text), "{} "); name != text && variableName.MatchString(name) {
			return "Invalid variable", fmt.Sprintf("%q has to be the bare name of the variable. Write %q.", text, name)
		}
		return "Invalid variable", fmt.Sprintf("%q has to be %s, and have at most %d "+
			"bytes.", text, description, maxVariableName)
	})
}

// validContainerID admits what the API takes for containers.
func validContainerID() validator.String {
	const description = "kind:name:container, such as deployments:my-agent:*, with the plural name of a kind or *"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if containerID.MatchString(text) {
			return "", ""
		}
		return "Invalid containers", fmt.Sprintf("%s is %q, but it takes %s. The kinds are deployments, daemonsets, "+
			"statefulsets, replicasets, jobs, cronjobs and pods.",
			attribute.Place(at), text, description)
	})
}

// validRegistry admits the beginning of an image's name.
func validRegistry() validator.String {
	const description = "the beginning of images, such as registry.example.com/mirror"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		switch {
		case text == "", strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return "Invalid registry", fmt.Sprintf("%s is %q, but it takes %s, without "+
				"spaces.", attribute.Place(at), text, description)
		case strings.Contains(text, "://"):
			_, rest, _ := strings.Cut(text, "://")
			return "Invalid registry", fmt.Sprintf("%s is %q, but images have no scheme. Write "+
				"%q.", attribute.Place(at), text, rest)
		}
		return "", ""
	})
}

// validNoProxy admits one part of a list that is separated by commas.
func validNoProxy() validator.String {
	const description = "one host, domain or address range, such as .svc or 10.0.0.0/8"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		switch {
		case text == "", strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), strings.Contains(text, "://"):
			return "Invalid entry", fmt.Sprintf("%s is %q, but it takes %s.", attribute.Place(at), text, description)
		case strings.Contains(text, ","):
			return "Invalid entry", fmt.Sprintf("%s is %q, but it takes %s. Write several as several elements of the "+
				"list.", attribute.Place(at), text, description)
		}
		return "", ""
	})
}

// validInstallNamespace admits namespaces, and the empty text.
func validInstallNamespace() validator.String {
	return attribute.ValidText("a namespace, or \"\" for those of the "+
		"manifests", func(at path.Path, text string) (summary, detail string) {
		if text == "" || len(validation.IsDNS1123Label(text)) == 0 {
			return "", ""
		}
		return "Invalid namespace", fmt.Sprintf("%s is %q, but it takes a DNS label (at most 63 lower-case letters, "+
			"digits and hyphens, with a letter or digit at both ends), or \"\" to keep the namespaces of the "+
			"manifests. Try %q.",
			attribute.Place(at), text, attribute.SuggestName(text))
	})
}
