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
	values := attribute.ValuesOf(ctx, config, diags)
	if diags.HasError() {
		return
	}
	if placement, ok := values["node_placement"].(types.Object); ok && !placement.IsNull() && !placement.IsUnknown() {
		klusterlet.CheckAgentOptions(placement.Attributes(), path.Root("node_placement"), diags)
	}
	containers, _ := values["resource_requirements"].(types.List)
	checkContainers(path.Root("resource_requirements"), containers, diags)
}

// checkContainers refuses resources that no container can have, and two entries for
// the same containers.
func checkContainers(at path.Path, containers types.List, diags *diag.Diagnostics) {
	seen := attribute.Seen{}
	for i, container := range attribute.EachObject(containers) {
		at, id := at.AtListIndex(i), container.Text("container_id")
		if !container["container_id"].IsUnknown() {
			seen.Again(id, at, "Duplicate containers",
				fmt.Sprintf("are both for %q. Make one entry of them.", id), diags)
		}
		klusterlet.CheckAgentOptions(map[string]attr.Value{"resources": container["resources"]}, at, diags)
	}
}

// The API's limits of variables, in bytes.
const (
	maxVariableName = 255
	maxVariable     = 1024
)

var (
	variableName = regexp.MustCompile(`^[a-zA-Z_][_a-zA-Z0-9]*$`)
	containerID  = regexp.MustCompile(
		`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):[^:]+:[^:]+$`)
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
	return attribute.Fitting("Invalid containers",
		"kind:name:container, such as deployments:my-agent:*, with the plural name of a kind or *",
		containerID.MatchString, func(string) string {
			return "The kinds are deployments, daemonsets, statefulsets, replicasets, jobs, cronjobs and pods."
		})
}

// validRegistry admits the beginning of an image's name.
func validRegistry() validator.String {
	return attribute.Fitting("Invalid registry",
		"the beginning of images, such as registry.example.com/mirror, without spaces",
		func(text string) bool { return !hasSpace(text) && !strings.Contains(text, "://") },
		func(text string) string {
			if _, rest, found := strings.Cut(text, "://"); found {
				return fmt.Sprintf("Images have no scheme. Write %q.", rest)
			}
			return ""
		})
}

// hasSpace reports whether a text is empty, or has spaces or control characters.
func hasSpace(text string) bool {
	return text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// validNoProxy admits one part of a list that is separated by commas.
func validNoProxy() validator.String {
	return attribute.Fitting("Invalid entry", "one host, domain or address range, such as .svc or 10.0.0.0/8",
		func(text string) bool {
			return !hasSpace(text) && !strings.Contains(text, "://") && !strings.Contains(text, ",")
		},
		func(text string) string {
			if strings.Contains(text, ",") {
				return "Write several as several elements of the list."
			}
			return ""
		})
}

// validInstallNamespace admits namespaces, and the empty text.
func validInstallNamespace() validator.String {
	return attribute.Fitting("Invalid namespace",
		"a DNS label (at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends), or "+
			"\"\" to keep the namespaces of the manifests",
		func(text string) bool { return text == "" || len(validation.IsDNS1123Label(text)) == 0 },
		func(text string) string { return fmt.Sprintf("Try %q.", attribute.SuggestName(text)) })
}
