// Package workcheck says which options of a work can't be carried out by any
// agent, or would cost more than an agent spends on them. The hub refuses them,
// the provider reports them while planning, and the agent applies the same limits
// to works that a hub has let in.
package workcheck

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// MaxPaths is how many paths of feedback, and how many of ignored fields, there
	// may be for an object.
	MaxPaths = 100
	// MaxRules is how many condition rules there may be for an object.
	MaxRules = 20
	// MaxExpressions is how many expressions one condition rule may have.
	MaxExpressions = 20
	// maxOptions is how many options a work may have: each is looked at for each of
	// its manifests.
	maxOptions = 1000
)

// ErrPath is in the error of a path that can't be read, or that costs too much.
var ErrPath = errors.New("cannot be used")

// Options checks the options of a work. Its error names the field, beginning
// with where the options are, the value, the reason and what to do; it is nil
// when there is nothing to object to.
func Options(field string, options []workv1.ManifestConfigOption) error {
	if len(options) > maxOptions {
		return fmt.Errorf("%s has %d options, more than %d: let one option stand for several objects with * in its name, or split the work", field, len(options), maxOptions)
	}
	for i, o := range options {
		at := fmt.Sprintf("%s[%d]", field, i)
		if id := o.ResourceIdentifier; max(len(id.Name), len(id.Namespace)) > workv1.MaxPattern {
			return fmt.Errorf("%s.resourceIdentifier: name or namespace has more than %d bytes, and would match nothing: shorten it",
				at, workv1.MaxPattern)
		}
		if err := feedback(at, o.FeedbackRules); err != nil {
			return err
		}
		if err := rules(at, o.ConditionRules); err != nil {
			return err
		}
		if o.UpdateStrategy != nil && o.UpdateStrategy.ServerSideApply != nil {
			if err := ignored(at+".updateStrategy.serverSideApply", o.UpdateStrategy.ServerSideApply.IgnoreFields); err != nil {
				return err
			}
		}
	}
	return nil
}

// Manifests checks the manifests of a work: each has to be an object with a name, none may
// be there twice, and together they have limit bytes at most. Its messages are those of
// Open Cluster Management.
func Manifests(manifests []workv1.Manifest, limit int) error {
	if len(manifests) == 0 {
		return errors.New("manifests should not be empty")
	}
	size := 0
	seen := map[string]bool{}
	for i, m := range manifests {
		size += m.Size()
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.Raw); err != nil {
			return fmt.Errorf("spec.workload.manifests[%d] is not a Kubernetes object: %w", i, err)
		}
		switch {
		case object.GetGenerateName() != "":
			return fmt.Errorf("spec.workload.manifests[%d] (%s): metadata.generateName is %q: the agent applies "+
				"manifests again and again, so give a metadata.name instead", i, object.GetKind(),
				object.GetGenerateName())
		case object.GetName() == "":
			return fmt.Errorf("spec.workload.manifests[%d] (%s): metadata.name is missing", i, object.GetKind())
		}
		key := object.GetAPIVersion() + "|" + object.GetKind() + "|" + object.GetNamespace() + "|" + object.GetName()
		if seen[key] {
			return fmt.Errorf("duplicate manifest for resource %s/%s with resource type %s", object.GetNamespace(),
				object.GetName(), object.GroupVersionKind())
		}
		seen[key] = true
	}
	if size > limit {
		return fmt.Errorf("the size of manifests is %d bytes which exceeds the %d limit", size, limit)
	}
	return nil
}

func feedback(at string, rules []workv1.FeedbackRule) error {
	paths := 0
	for i, r := range rules {
		paths += len(r.JSONPaths)
		if paths > MaxPaths {
			return fmt.Errorf("%s.feedbackRules has more than %d paths: report fewer values of each object", at, MaxPaths)
		}
		for j, p := range r.JSONPaths {
			if err := JSONPath(p.Path); err != nil {
				return fmt.Errorf("%s.feedbackRules[%d].jsonPaths[%d].path: %w", at, i, j, err)
			}
		}
	}
	return nil
}

func rules(at string, rules []workv1.ConditionRule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("%s.conditionRules has %d rules, more than %d: use fewer rules for each object", at, len(rules), MaxRules)
	}
	var expressions []expression.Named
	for i, r := range rules {
		for j, text := range r.CELExpressions {
			expressions = append(expressions, expression.Named{Path: fmt.Sprintf("%s.conditionRules[%d].celExpressions[%d]", at, i, j), Text: text})
		}
		if r.MessageExpression != "" {
			expressions = append(expressions, expression.Named{Path: fmt.Sprintf("%s.conditionRules[%d].messageExpression", at, i), Text: r.MessageExpression})
		}
		if len(r.CELExpressions) > MaxExpressions {
			return fmt.Errorf("%s.conditionRules[%d].celExpressions has %d expressions, more than %d: join them with &&", at, i, len(r.CELExpressions), MaxExpressions)
		}
	}
	return expression.CheckTexts(expressions)
}

func ignored(at string, fields []workv1.IgnoreField) error {
	paths := 0
	for i, f := range fields {
		at := fmt.Sprintf("%s.ignoreFields[%d]", at, i)
		paths += len(f.JSONPaths) + len(f.JSONPointers) + len(f.JQPathExpressions)
		if paths > MaxPaths {
			return fmt.Errorf("%s: there are more than %d paths: ignore fewer fields of each object", at, MaxPaths)
		}
		for j, p := range f.JSONPaths {
			if err := JSONPath(p); err != nil {
				return fmt.Errorf("%s.jsonPaths[%d]: %w", at, j, err)
			}
		}
		for j, p := range f.JSONPointers {
			if len(p) > fieldpath.MaxLength {
				return fmt.Errorf("%s.jsonPointers[%d] is %d bytes long, more than the %d that a path may have", at, j, len(p), fieldpath.MaxLength)
			}
		}
		for j, p := range f.JQPathExpressions {
			if err := JQ(p); err != nil {
				return fmt.Errorf("%s.jqPathExpressions[%d]: %w", at, j, err)
			}
		}
	}
	return nil
}

// JSONPath checks a JSONPath. The error holds the path.
func JSONPath(path string) error {
	if _, err := fieldpath.ParseJSONPath(path); err != nil {
		return fmt.Errorf("the JSONPath %s %w: %w", quoted(path), ErrPath, err)
	}
	return nil
}

// JQ checks a jq path expression. The error holds the expression.
func JQ(path string) error {
	if _, err := fieldpath.ParseJQ(path); err != nil {
		return fmt.Errorf("the jq path expression %s %w: %w", quoted(path), ErrPath, err)
	}
	return nil
}

// quoted is a text for a message, cut where it is long.
func quoted(s string) string { return fmt.Sprintf("%q", text.Cut(s, 100)) }
