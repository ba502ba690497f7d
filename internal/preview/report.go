package preview

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxNamed is how many clusters are named in one place.
const maxNamed = 5

// Report is what a change would do in all clusters together.
type Report struct {
	// Objects are those that would not stay as they are, in the order of the manifests.
	Objects []Object
	// Missing are the clusters without an answer, those with the same reason together.
	Missing []Group
	// Clusters is how many were asked, and Unchanged in how many nothing would change.
	Clusters, Unchanged int
}

// Object is what would become of an object in the clusters.
type Object struct {
	// Name is its kind, and its name as namespace/name.
	Name string
	// Outcomes are those in which it does not stay as it is, each with its clusters.
	Outcomes []Group
}

// Group are clusters in which the same would happen.
type Group struct {
	Outcome  v1alpha1.PreviewOutcome
	Clusters []string
	// Lines say what: the fields that would change, or why.
	Lines []string
}

// Summarize puts answers together.
func Summarize(answers []Answer) Report {
	r := Report{Clusters: len(answers)}
	at := map[string]int{}      // of an object in r.Objects
	missing := map[string]int{} // of a reason in r.Missing
	seen := map[string]int{}    // of an outcome in an object's
	for _, a := range answers {
		if a.Missing != "" {
			i, known := missing[a.Missing]
			if !known {
				i = len(r.Missing)
				missing[a.Missing] = i
				r.Missing = append(r.Missing, Group{Lines: []string{a.Missing}})
			}
			r.Missing[i].Clusters = append(r.Missing[i].Clusters, a.Cluster)
			continue
		}
		stays := a.MoreObjects == 0
		for _, o := range withMore(a) {
			if o.Outcome == v1alpha1.PreviewUnchanged {
				continue
			}
			stays = false
			name := nameOf(o)
			i, known := at[name]
			if !known {
				i = len(r.Objects)
				at[name] = i
				r.Objects = append(r.Objects, Object{Name: name})
			}
			object := &r.Objects[i]
			signature := name + "\n" + signatureOf(o)
			j, known := seen[signature]
			if !known {
				j = len(object.Outcomes)
				seen[signature] = j
				object.Outcomes = append(object.Outcomes, Group{Outcome: o.Outcome, Lines: linesOf(o)})
			}
			object.Outcomes[j].Clusters = append(object.Outcomes[j].Clusters, a.Cluster)
		}
		if stays {
			r.Unchanged++
		}
	}
	return r
}

// withMore are the objects of an answer, and one that stands for those without room.
func withMore(a Answer) []v1alpha1.ObjectPreview {
	if a.MoreObjects == 0 {
		return a.Objects
	}
	return append(a.Objects[:len(a.Objects):len(a.Objects)], v1alpha1.ObjectPreview{
		Outcome: v1alpha1.PreviewUnknown,
		Message: fmt.Sprintf("there are %d more objects than an answer has room for", a.MoreObjects),
	})
}

func nameOf(o v1alpha1.ObjectPreview) string {
	m := o.ResourceMeta
	kind, name := m.Kind, m.Name
	if kind == "" {
		kind = m.Resource
	}
	if m.Namespace != "" {
		name = m.Namespace + "/" + name
	}
	if name == "" {
		return "further objects"
	}
	return kind + " " + name
}

func signatureOf(o v1alpha1.ObjectPreview) string {
	o.ResourceMeta = v1alpha1.ObjectPreview{}.ResourceMeta
	data, _ := json.Marshal(o) // of a type of the API, which always can be
	return string(data)
}

// linesOf are the details of an outcome.
func linesOf(o v1alpha1.ObjectPreview) []string {
	var lines []string
	if o.Message != "" {
		lines = append(lines, o.Message)
	}
	for _, c := range o.Changes {
		switch {
		case c.From == "":
			lines = append(lines, fmt.Sprintf("%s: + %s", c.Path, c.To))
		case c.From == c.To: // masked
			lines = append(lines, fmt.Sprintf("%s: another value %s", c.Path, strings.Trim(c.To, `"`)))
		case c.To == "":
			lines = append(lines, fmt.Sprintf("%s: - %s", c.Path, c.From))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", c.Path, c.From, c.To))
		}
	}
	if o.MoreChanges > 0 {
		lines = append(lines, fmt.Sprintf("and %d more fields", o.MoreChanges))
	}
	return lines
}

// HasChanges reports whether anything would not stay as it is.
func (r Report) HasChanges() bool { return len(r.Objects) > 0 }

// IsProblem reports whether an outcome keeps a work from being applied, or may.
func IsProblem(o v1alpha1.PreviewOutcome) bool {
	switch o {
	case v1alpha1.PreviewConflict, v1alpha1.PreviewRefused, v1alpha1.PreviewUnknown:
		return true
	}
	return false
}

// Only is the report of what keeps works from being applied, or of all else.
func (r Report) Only(problems bool) Report {
	out := Report{Clusters: r.Clusters, Unchanged: r.Unchanged}
	for _, o := range r.Objects {
		kept := Object{Name: o.Name}
		for _, g := range o.Outcomes {
			if IsProblem(g.Outcome) == problems {
				kept.Outcomes = append(kept.Outcomes, g)
			}
		}
		if len(kept.Outcomes) > 0 {
			out.Objects = append(out.Objects, kept)
		}
	}
	if problems {
		out.Missing = r.Missing
	}
	return out
}

// verbs say what would become of an object.
var verbs = map[v1alpha1.PreviewOutcome]string{
	v1alpha1.PreviewCreate:   "+ create",
	v1alpha1.PreviewChange:   "~ change",
	v1alpha1.PreviewRecreate: "± delete and create again",
	v1alpha1.PreviewDelete:   "- delete",
	v1alpha1.PreviewRelease:  "  no longer hold",
	v1alpha1.PreviewConflict: "! conflict",
	v1alpha1.PreviewRefused:  "! refused",
	v1alpha1.PreviewUnknown:  "? not known",
}

// Lines is the report as text. paint, which may be nil, gives a line the colours of its
// outcome, which is "" for a cluster without an answer.
func (r Report) Lines(paint func(v1alpha1.PreviewOutcome, string) string) []string {
	if paint == nil {
		paint = func(_ v1alpha1.PreviewOutcome, line string) string { return line }
	}
	var lines []string
	for _, o := range r.Objects {
		lines = append(lines, o.Name)
		for _, g := range o.Outcomes {
			head := fmt.Sprintf("  %s %s", verbs[g.Outcome], g.where(r.Clusters))
			if len(g.Lines) == 1 {
				lines = append(lines, paint(g.Outcome, head+": "+g.Lines[0]))
				continue
			}
			if len(g.Lines) > 0 {
				head += ":"
			}
			lines = append(lines, paint(g.Outcome, head))
			for _, l := range g.Lines {
				lines = append(lines, paint(g.Outcome, "      "+l))
			}
		}
	}
	for _, g := range r.Missing {
		lines = append(lines, paint("", fmt.Sprintf("%s: %s", g.names(), g.Lines[0])))
	}
	return lines
}

// where says in which of all clusters something happens.
func (g Group) where(all int) string {
	switch n := len(g.Clusters); {
	case n <= maxNamed:
		return "in " + g.names()
	case n == all:
		return fmt.Sprintf("in all %d clusters", n)
	default:
		return fmt.Sprintf("in %d clusters (%s)", n, g.names())
	}
}

func (g Group) names() string { return text.List(g.Clusters, maxNamed) }

// Summary says in one line in how many clusters how much would change.
func (r Report) Summary() string {
	changed, unanswered := map[string]bool{}, 0
	problem := map[string]bool{}
	for _, o := range r.Objects {
		for _, g := range o.Outcomes {
			for _, c := range g.Clusters {
				if IsProblem(g.Outcome) {
					problem[c] = true
				} else {
					changed[c] = true
				}
			}
		}
	}
	for _, g := range r.Missing {
		unanswered += len(g.Clusters)
	}
	parts := []string{fmt.Sprintf("%s asked", count(r.Clusters))}
	for _, x := range []struct {
		n    int
		what string
	}{{len(changed), "with changes"}, {r.Unchanged, "without changes"}, {len(problem), "with refusals"},
		{unanswered, "without an answer"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(parts, ", ") + "."
}

func count(clusters int) string {
	if clusters == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", clusters)
}
