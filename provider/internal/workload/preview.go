package workload

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// previewBudget is how long a plan waits for all clusters of one resource together.
	previewBudget = time.Minute
	// maxPreviewLines is how many lines a warning has: muster diff shows all of them.
	maxPreviewLines = 200
)

// PreviewField is the attribute that asks for a preview.
func PreviewField[O any]() attribute.Field[O] {
	return attribute.Local[O]("preview", schema.StringAttribute{
		MarkdownDescription: "Whether a plan asks the clusters' agents what the change would do there, by dry runs " +
			"that change nothing. " + hub.PreviewModes + " Defaults to that of the provider block. See the guide " +
			"[Previews](../guides/previews.md).",
		Optional:   true,
		Validators: attribute.OneOf(hub.PreviewNone, hub.PreviewClusters, hub.PreviewEnforced),
	})
}

// Preview asks clusters what a planned change of works would do there, and puts the answer
// into the plan's warnings: what would change, and what would be refused. ask says what
// to ask; its error is a warning, too.
func Preview[O kube.Object](
	ctx context.Context, p crud.Previewing[O], what string,
	ask func(ctx context.Context) ([]preview.Question, error),
) {
	mode := hub.PreviewMode(p.Values.Text("preview"))
	if mode == "" {
		mode = p.Hub.Preview
	}
	if mode == "" || mode == hub.PreviewNone {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, previewBudget)
	defer cancel()
	cannot := func(why string) {
		p.Diagnostics.AddAttributeWarning(path.Root("preview"), "No preview: "+what, attribute.Capitalize(why)+".")
	}
	has, err := p.Hub.Has(ctx, p.Client, hubinfo.WorkPreview)
	if err == nil && !has {
		cannot(preview.NotServed)
		return
	}
	var questions []preview.Question
	if err == nil {
		questions, err = ask(ctx)
	}
	if err != nil {
		cannot(err.Error())
		return
	}
	answers, _ := preview.Ask(ctx, previewHub{p.Client}, questions, 0) // those of clusters that were not reached say so
	ContentOf(p.Values).with(ctx, p.Config).conceal(answers)
	r := preview.Summarize(answers)
	said := func(of preview.Report) string {
		return strings.Join(append(text.First(of.Lines(nil), maxPreviewLines), "", r.Summary()), "\n")
	}
	if done := r.Only(false); done.HasChanges() {
		p.Diagnostics.AddWarning("Preview: what "+what+" does in the clusters", said(done))
	}
	refused := r.Only(true)
	summary, detail := "Preview: clusters would refuse objects of "+what, said(refused)
	switch {
	case refused.HasChanges() && mode == hub.PreviewEnforced:
		p.Diagnostics.AddAttributeError(path.Root("preview"), summary, detail+
			fmt.Sprintf("\n\nThe plan fails as preview is %q. Correct the objects, or set preview = %q to plan them "+
				"nevertheless.", hub.PreviewEnforced, hub.PreviewClusters))
	case refused.HasChanges():
		p.Diagnostics.AddAttributeWarning(path.Root("preview"), summary, detail)
	case len(refused.Missing) > 0:
		p.Diagnostics.AddAttributeWarning(path.Root("preview"), "Preview: clusters did not answer for "+what, detail)
	}
}

// conceal masks in answers what is not to be shown: all values of write-only objects,
// those of sensitive fields, and strings in the attribute objects, which may be sensitive
// values of Terraform: it does not say which are.
func (c Content) conceal(answers []preview.Answer) {
	hidden := FieldsFrom(c.Fields).WriteOnly()
	objects, _ := c.of("manifests_wo")
	for _, o := range objects {
		hidden[o.Key()] = ""
	}
	shown, sensitive := c.shown(), attribute.StringList(c.SensitiveFields)
	for _, a := range answers {
		for i := range a.Objects {
			o := &a.Objects[i]
			key := keyOf(o.ResourceMeta)
			for j := range o.Changes {
				change := &o.Changes[j]
				_, all := hidden[key]
				all = all || slices.ContainsFunc(sensitive, func(s string) bool { return related(change.Path, s) })
				concealValue(&change.From, all, shown[key])
				concealValue(&change.To, all, shown[key])
			}
		}
	}
}

const concealed = "(sensitive)"

// concealValue masks a value: any, or one that is a text or has some in it.
func concealValue(value *string, all, texts bool) {
	if *value != "" && (all || texts && strings.Contains(*value, `"`)) {
		*value = concealed
	}
}

// segment is one step of a path: a name, or what is in brackets.
var segment = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// related reports whether one of two fields is the other, or in it, as far as their paths
// say: an agent names the items of lists, and a configuration counts them.
func related(a, b string) bool {
	x, y := segment.FindAllString(a, -1), segment.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		any := x[i] == "*" || y[i] == "*" || x[i][0] == '[' || y[i][0] == '['
		if !any && x[i] != y[i] {
			return false
		}
	}
	return true
}

// previewHub reaches the hub for previews.
type previewHub struct{ *kube.Client }

func (h previewHub) Cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{}
	return mc, h.Get(ctx, mc, "", name)
}

func (h previewHub) Create(ctx context.Context, p *v1alpha1.WorkPreview) error {
	return h.Client.Create(ctx, p)
}

func (h previewHub) Await(ctx context.Context, p *v1alpha1.WorkPreview, done func() bool) error {
	return h.Wait(ctx, p, p.Namespace, p.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("the preview was deleted before there was an answer")
		}
		return done(), nil
	})
}

func (h previewHub) Delete(ctx context.Context, p *v1alpha1.WorkPreview) error {
	_, err := h.Client.Delete(ctx, p, p.Namespace, p.Name, p.UID)
	return err
}
