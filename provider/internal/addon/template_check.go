package addon

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What is wrong with the objects of a template, as far as a configuration shows it.

// templateRules are the rules for the objects of a template: a hub divides them among
// works, and fills in their placeholders.
func templateRules() workload.Rules {
	return workload.Rules{
		Limit: "The template has the objects of all three, in this order; each may take up to 500 KiB, and the hub " +
			"divides them among as many works as they need.",
		Fits: func(objects []workload.Object) error {
			for _, object := range objects {
				if size := len(object.JSON); size > work.DefaultManifestLimit {
					return fmt.Errorf("%s takes %d bytes, more than the %d that a hub accepts in one work; divide "+
						"it, or let the agent fetch what it needs", object, size, work.DefaultManifestLimit)
				}
			}
			return nil
		},
		Kinds: kindProblems,
		Each:  checkManifest,
	}
}

// checkManifest checks one object: its placeholders, and the annotations by which hubs
// treat it specially. Where the object may be secret, nothing of it is quoted but its
// name.
func checkManifest(object workload.Object, secret bool) (problems, warnings []string) {
	one := &v1alpha1.AddOnTemplate{}
	one.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: object.JSON}}}
	parsed, err := template.Parse(one)
	switch {
	case err != nil && secret:
		problems = append(problems, "a text in it opens a placeholder with {{ that nothing closes; close it with }}")
	case err != nil:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		problems = append(problems, strings.TrimPrefix(err.Error(), "manifests[0] "))
	default:
		for _, name := range parsed.Placeholders() {
			if problem := placeholderProblem(name, secret); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	fields, err := object.Value()
	if err != nil {
		return problems, nil
	}
	problems = append(problems, literalProblems(fields)...)
	if marked(fields, addon.PreDeleteAnnotation) != nil && !runs(object) {
		warnings = append(warnings, fmt.Sprintf("it has %s, which counts for a Job or a Pod alone, so the object is "+
			"deployed like the others; remove it there", addon.PreDeleteAnnotation))
	}
	places := []string{addon.LocationManaged, addon.LocationHosting, addon.LocationNone}
	if at := marked(fields, addon.LocationAnnotation); at != nil && !slices.Contains(places, *at) {
		problems = append(problems, fmt.Sprintf("%s is %q, and it takes one of "+
			"%s", addon.LocationAnnotation, *at, strings.Join(places, ", ")))
	}
	return problems, warnings
}

// literalProblems are the placeholders where API servers take none: they check the
// namespace and the labels of each object when the template is written.
func literalProblems(fields map[string]any) []string {
	var problems []string
	metadata, _ := fields["metadata"].(map[string]any)
	if namespace, _ := metadata["namespace"].(string); strings.Contains(namespace, "{{") {
		problems = append(problems, "metadata.namespace has a placeholder, and API servers refuse a template with "+
			"one there; write a namespace such as "+addon.DefaultInstallNamespace+
			"; agent_install_namespace of a muster_addon_deployment_config replaces it")
	}
	labels, _ := metadata["labels"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value, _ := labels[key].(string); strings.Contains(key+value, "{{") {
			problems = append(problems, "metadata.labels has a placeholder, and API servers refuse a template with "+
				"one there; use an annotation, or a label of the pods")
			break
		}
	}
	return problems
}

// runs reports whether an object is of a kind that runs once.
func runs(object workload.Object) bool {
	return object.Kind == "Pod" && object.APIVersion == "v1" ||
		object.Kind == "Job" && strings.HasPrefix(object.APIVersion, "batch/")
}

// marked is the annotation of an object, or else its label, of a key; nil without one.
func marked(fields map[string]any, key string) *string {
	metadata, _ := fields["metadata"].(map[string]any)
	for _, in := range []string{"annotations", "labels"} {
		entries, _ := metadata[in].(map[string]any)
		if value, ok := entries[key].(string); ok {
			return &value
		}
	}
	return nil
}

// placeholderProblem says what is wrong with a placeholder that can't have a value: it
// would be left out of every text.
func placeholderProblem(name string, secret bool) string {
	if variableName.MatchString(name) && len(name) <= maxVariableName {
		return ""
	}
	bare := strings.TrimSpace(name)
	switch {
	case secret:
		return "a text in it has {{...}} around what can't be the name of a variable: letters, digits and " +
			"underscores without spaces, as in {{CLUSTER_NAME}}; hubs would leave it out"
	case variableName.MatchString(bare):
		return fmt.Sprintf("{{%s}} has spaces in it, and hubs would leave it out; write {{%s}}", name, bare)
	}
	return fmt.Sprintf("{{%s}} can't be a variable, and hubs would leave it out: names are letters, digits and "+
		"underscores, as in {{CLUSTER_NAME}}. To have these characters in the object, write a variable such as "+
		"{{TEXT}}, and put the text into customized_variables of a muster_addon_deployment_config", name)
}

// samples are values of the variables that hubs set themselves.
func samples() map[string]string {
	return map[string]string{
		"CLUSTER_NAME": "cluster1", "INSTALL_NAMESPACE": addon.DefaultInstallNamespace,
		"HUB_KUBECONFIG": "/managed/hub-kubeconfig/kubeconfig",
	}
}

var placeholderText = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)

// kindProblems are the problems of an object of Kubernetes' own kinds as clusters get
// it. Texts with variables that only a deployment configuration sets may turn out to be
// anything, but they stay texts.
func kindProblems(object map[string]any) []workload.Problem {
	f := filling{samples: samples(), open: map[string]bool{}}
	filled, _ := f.value("", object).(map[string]any)
	return slices.DeleteFunc(workload.CheckObject(filled), func(p workload.Problem) bool {
		return f.open[p.Path] && !p.Typed
	})
}

// filling puts samples in the place of placeholders.
type filling struct {
	samples map[string]string
	// open are the paths of texts that have other variables.
	open map[string]bool
}

func (f filling) value(at string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		filled := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, open := f.text(key)
			if open {
				f.open[workload.JoinPath(at, name)] = true
			}
			filled[name] = f.value(workload.JoinPath(at, name), value[key])
		}
		return filled
	case []any:
		filled := make([]any, 0, len(value))
		for i, element := range value {
			filled = append(filled, f.value(at+"["+strconv.Itoa(i)+"]", element))
		}
		return filled
	case string:
		text, open := f.text(value)
		if open {
			f.open[at] = true
		}
		return text
	}
	return value
}

// text is a text with samples, and whether it has other variables.
func (f filling) text(text string) (filled string, open bool) {
	filled = placeholderText.ReplaceAllStringFunc(text, func(placeholder string) string {
		if sample, ok := f.samples[strings.Trim(placeholder, "{}")]; ok {
			return sample
		}
		open = true
		return "x"
	})
	return filled, open
}
