package workload

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What agents report of objects that they can't apply is judged here: what it is, in the
// words of the cluster's API server, whether it may pass, and when a wait for the work
// ends because of it.

// How long the same failure has to last until a wait ends for it.
const (
	// DefinitePatience is for what no retry can change, such as a field that the
	// server refuses. Agents retry several times within it.
	DefinitePatience = 3 * time.Second
	// LastingPatience is for what somebody may put right meanwhile.
	LastingPatience = 30 * time.Second
)

// FinishedAdvice is what is wrong with a work that IsFinished.
const FinishedAdvice = "The work is Complete: as long as a condition rule says so, the agent applies no change of " +
	"it. To have the objects applied, create a work of another name, " +
	"replace this one (terraform apply -replace), or remove the rule for Complete."

// Refused is an object that an agent can't apply.
type Refused struct {
	Meta workv1.ManifestResourceMeta
	// Message is what the cluster's API server says.
	Message string
}

// RefusedObjects lists the objects of a work's present generation that the agent can't apply.
func RefusedObjects(w *workv1.ManifestWork) []Refused {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	if applied == nil || applied.Status != metav1.ConditionFalse || isOld(applied, w) {
		return nil
	}
	var list []Refused
	for _, m := range w.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		if c != nil && c.Status == metav1.ConditionFalse {
			list = append(list, Refused{m.ResourceMeta, c.Message})
		}
	}
	return list
}

// Troubles are why a wait for a work may end before its time; none for a failure that
// may pass, and for a work that the agent has yet to look at.
func Troubles(w *workv1.ManifestWork) []kube.Trouble {
	return troubleOf(judgeWork(w))
}

// TroublesIn are Troubles with the name of the work, which tells them from those of
// others.
func TroublesIn(w *workv1.ManifestWork) []kube.Trouble {
	troubles := Troubles(w)
	for i := range troubles {
		troubles[i].Text = Qualified(w.Namespace, w.Name) + ": " + troubles[i].Text
	}
	return troubles
}

// TroubleOf is why a wait may end before its time, for a single message of a cluster's
// API server; none for one that may pass.
func TroubleOf(message string) []kube.Trouble {
	return troubleOf(message, severityOf(message))
}

func troubleOf(text string, s severity) []kube.Trouble {
	switch {
	case text == "" || s == passing:
		return nil
	case s == definite:
		return []kube.Trouble{{Text: text, After: DefinitePatience}}
	}
	return []kube.Trouble{{Text: text, After: LastingPatience}}
}

// judgeWork is what the agent says of the objects that it can't apply, one in a line, and
// how bad that is.
func judgeWork(w *workv1.ManifestWork) (string, severity) {
	if IsFinished(w) {
		return FinishedAdvice, definite
	}
	worst := passing
	var lines []string
	for _, m := range RefusedObjects(w) {
		lines = append(lines, Places(nil).Name(m.Meta)+": "+m.Message)
		switch s := severityOf(m.Message); {
		case s == definite:
			worst = definite
		case worst != definite && (len(lines) == 1 || s == passing):
			worst = s // What may pass may also be the cause of the rest.
		}
	}
	return strings.Join(lines, "\n"), worst
}

// IsFinished reports whether a work was Complete before its last change, and stays so.
func IsFinished(w *workv1.ManifestWork) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionComplete)
	return c != nil && c.Status == metav1.ConditionTrue && isOld(c, w) && CanComplete(w.Spec.ManifestConfigs)
}

// isOld reports whether a condition of a work is about an earlier generation.
func isOld(c *metav1.Condition, w *workv1.ManifestWork) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation
}

// CanComplete reports whether options have a rule by which a work becomes Complete.
func CanComplete(options []workv1.ManifestConfigOption) bool {
	return slices.ContainsFunc(options, func(o workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(o.ConditionRules, func(r workv1.ConditionRule) bool {
			return r.Condition == work.ConditionComplete
		})
	})
}

// Remedies are what to do about what agents can't apply, where the words of the API server
// do not say it.
func Remedies(works ...*workv1.ManifestWork) []string {
	var remedies []string
	for _, w := range works {
		for _, r := range RefusedObjects(w) {
			switch {
			case strings.Contains(r.Message, "Apply failed with "):
				remedies = append(remedies, "To take the fields over from their other managers, set force = true in "+
					"the object's update_strategy.server_side_apply; to leave them alone, leave them out of the "+
					"manifest, or name them in ignore_fields.")
			case strings.Contains(r.Message, "field is immutable"):
				remedies = append(remedies, "A field that may not change takes another object: give it another "+
					"name, or let the work be replaced (terraform apply -replace), which deletes and creates all of "+
					"its objects.")
			}
		}
	}
	return slices.Compact(attribute.Sorted(remedies))
}

const (
	// shownCauses is how many causes a message lists, and shownClusters how many
	// clusters of each.
	shownCauses   = 10
	shownClusters = 3
)

// Causes are what is wrong in a fleet, each with the clusters in which it is.
type Causes map[string][]string

// Add notes what is wrong in a cluster.
func (c Causes) Add(cluster, cause string) {
	if !slices.Contains(c[cause], cluster) {
		c[cause] = append(c[cause], cluster)
	}
}

// Lines list the causes, those of most clusters first: "in 37 clusters (a, b, c and 34
// more): …". Where there are many, the last line counts the rest.
func (c Causes) Lines() []string {
	var texts []string
	for text := range c {
		slices.Sort(c[text])
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(c[b]), len(c[a])), strings.Compare(c[a][0], c[b][0]), strings.Compare(a, b))
	})
	var lines []string
	rest := map[string]bool{}
	for i, text := range texts {
		if i < shownCauses {
			lines = append(lines, "  in "+namedClusters(c[text])+": "+text)
			continue
		}
		for _, cluster := range c[text] {
			rest[cluster] = true
		}
	}
	if len(rest) > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more, in %s", len(texts)-shownCauses, countedClusters(len(rest))))
	}
	return lines
}

// namedClusters are clusters with their number, and the first of them by name.
func namedClusters(clusters []string) string {
	if len(clusters) == 1 {
		return clusters[0]
	}
	return fmt.Sprintf("%s (%s)", countedClusters(len(clusters)), text.List(clusters, shownClusters))
}

func countedClusters(clusters int) string {
	if clusters == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", clusters)
}

// severity is what may be expected of a failure.
type severity int

const (
	// passing is what may well be over soon: a namespace that another work brings,
	// or a webhook that does not answer.
	passing severity = iota
	// lasting is what only somebody's doing ends, in the cluster or in the work.
	lasting
	// definite is what only another manifest ends.
	definite
)

// severityOf judges the words of a cluster's API server, as the agent reports them.
func severityOf(message string) severity {
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(message, phrase) })
	}
	unknownKind := noSuchKind.FindStringSubmatch(message)
	switch {
	case unknownKind != nil && isKubernetesOwn(unknownKind[1]):
		return definite
	case unknownKind != nil, says("denied the request", "exceeded quota", "failed quota"):
		return lasting
	case says("failed calling webhook", "because it is being terminated", "error looking up service account",
		"not yet ready to handle request", "could not find the requested resource", "connection refused", "timeout",
		"timed out", "deadline exceeded", "Internal error", "EOF", "Too many requests", "too many requests",
		"currently unable to handle the request", "no endpoints available", "the object has been modified"):
		return passing
	case says(" is invalid: ", " is forbidden: ", "strict decoding error", "cannot unmarshal", "unable to decode",
		"cannot be handled as a", "failed to create typed patch object", "field not declared in schema",
		"unknown field", "does not match the namespace"):
		return definite
	case says("not found"):
		return passing
	default:
		return lasting
	}
}

// noSuchKind is how a kind that the cluster does not have is reported.
var noSuchKind = regexp.MustCompile(`no matches for kind "[^"]*" in version "([^"]*)"`)

// isKubernetesOwn reports whether an API is Kubernetes' own, which no definition
// adds to.
func isKubernetesOwn(apiVersion string) bool {
	group := groupOf(apiVersion)
	return group == "apiregistration.k8s.io" ||
		slices.ContainsFunc(coreGroups(), func(known string) bool { return groupOf(known) == group })
}
