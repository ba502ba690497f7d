package crud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Wait waits until an object of the hub is as it is wanted. How far it is goes to the
// provider's log, and what is missing at the end into the message. Fields that are
// called optional may be left out.
type Wait struct {
	Client *kube.Client
	// What names the object in messages, such as placement "default/p".
	What string
	// Resource is its kind for kubectl: placement.
	Resource string
	// Object has the namespace and the name of what is waited for. It holds what was
	// seen last.
	Object kube.Object
	// Timeout is that of the context with which the wait runs.
	Timeout time.Duration
	// Missing lists what is not as wanted, a phrase each. The wait is met when there is
	// nothing.
	Missing func() []string
	// Prepare is optional. It reads what Missing needs beside the object, each time
	// before it. An error of it ends the wait.
	Prepare func(ctx context.Context) error
	// Follow is optional. It calls look with every change of the object and of what else
	// counts, until look says that the wait is met. Without it, the object is followed.
	Follow func(ctx context.Context, look func() (bool, error)) error
	// Gone is optional: what it means that there is no such object.
	Gone string
	// Troubles is optional: why the wait will not be met. It ends when one of them has
	// lasted for as long as it says. GivenUp explains that to the user.
	Troubles func() []kube.Trouble
	GivenUp  func(*kube.GaveUpError) []string
	// Conditions is optional: those of the object.
	Conditions func() []metav1.Condition
	// Details is optional: further lines about an object that is not as wanted.
	Details func(ctx context.Context) []string
	// Next is optional: further commands that show more, beside kubectl describe.
	Next []string
}

// FinalError is the error of a Prepare that knows that the wait can't be met any more.
// Its text is all that the user gets to know.
type FinalError struct{ Why string }

// Error implements error.
func (e *FinalError) Error() string { return e.Why }

// Run waits until ctx ends. It returns what to report when the wait was not met; an
// empty problem says that it was.
func (w *Wait) Run(ctx context.Context) (summary, problem string) {
	err := w.Until(ctx)
	summary = "Not ready: " + w.What
	var final *FinalError
	var gaveUp *kube.GaveUpError
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &final):
		return summary, final.Why
	case errors.As(err, &gaveUp), hub.IsTimeout(err):
		return summary, w.Describe(ctx, gaveUp, time.Now())
	default:
		return summary, hub.Explain(w.Client.Host(), "wait for it", err)
	}
}

// Until is Run for callers that explain errors themselves: a *kube.GaveUpError when a
// trouble has lasted, and the context's when that has ended.
func (w *Wait) Until(ctx context.Context) (err error) {
	ctx, span := tracing.Start(ctx, "wait for "+w.Resource, tracing.ObjectKindKey.String(kube.KindName(w.Object)),
		tracing.NamespaceKey.String(w.Object.GetNamespace()), tracing.ObjectNameKey.String(w.Object.GetName()))
	defer func() { tracing.End(span, err, "not met") }()
	return kube.WaitOrGiveUp(ctx, func(ctx context.Context, note func(...kube.Trouble)) error {
		logged := ""
		look := func() (bool, error) {
			if w.Prepare != nil {
				if err := w.Prepare(ctx); err != nil {
					return false, err
				}
			}
			if w.Troubles != nil {
				note(w.Troubles()...)
			}
			missing := w.Missing()
			if text := attribute.JoinLines(missing); text != logged && text != "" {
				logged = text
				tflog.Info(ctx, fmt.Sprintf("Waiting for %s\n%s", w.What, text))
			}
			return len(missing) == 0, nil
		}
		if w.Follow != nil {
			return w.Follow(ctx, look)
		}
		return w.Client.Wait(ctx, w.Object, w.Object.GetNamespace(), w.Object.GetName(),
			func(exists bool) (bool, error) {
				if !exists {
					return false, w.gone()
				}
				return look()
			})
	})
}

func (w *Wait) gone() error {
	if w.Gone != "" {
		return errors.New(w.Gone)
	}
	return errors.New("it was deleted meanwhile, or never existed")
}

// Describe says why the wait was not met. early is why it ended before its timeout; nil
// when it did not.
func (w *Wait) Describe(ctx context.Context, early *kube.GaveUpError, now time.Time) string {
	opening := fmt.Sprintf("Within %s generation", attribute.ShortDuration(w.Timeout))
	var lines []string
	if early != nil {
		opening = "Generation"
		lines = append(lines, w.GivenUp(early)...)
	}
	lines = append(lines, fmt.Sprintf("%s %d did not reach what is waited for:", opening, w.Object.GetGeneration()))
	for _, missing := range w.Missing() {
		lines = append(lines, "  "+missing)
	}
	if w.Conditions != nil {
		lines = append(lines, "All conditions:", hub.DescribeConditions(w.Conditions(), now))
	}
	if w.Details != nil {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
		defer cancel()
		lines = append(lines, w.Details(asking)...)
	}
	next := "  kubectl describe " + w.Resource
	if namespace := w.Object.GetNamespace(); namespace != "" {
		next += " -n " + namespace
	}
	lines = append(lines, "", "Next:", next+" "+w.Object.GetName())
	for _, command := range w.Next {
		lines = append(lines, "  "+command)
	}
	return attribute.JoinLines(lines)
}

// Follow is what comes after an object was written: the wait for it, if the
// configuration asks for one, and the attributes that the hub fills in.
type Follow struct {
	// Attribute is the kind's attribute wait.
	Attribute WaitAttribute
	// Wait waits, and returns what to report if it was not met. It is nil where the
	// configuration asks for no wait.
	Wait func(waiting context.Context) (summary, problem string)
	// Settle is optional: it gives the hub a moment to report where there is no wait.
	Settle func(waiting context.Context)
	// Report takes over what was seen last, after Wait and after Settle. If nil, that is
	// what the table reads.
	Report func()
}

// begin fills in the attribute ready for as long as the wait is not met, and reports
// whether to wait: ready is unknown where the plan asks for that.
func (f Follow) begin(values attribute.Values) bool {
	due := f.Wait != nil && values["ready"].IsUnknown()
	switch {
	case f.Wait == nil:
		values["ready"] = types.BoolNull()
	case due:
		values["ready"] = types.BoolValue(false)
	}
	return due
}

func (f Follow) run(waiting context.Context, values attribute.Values, due bool) (summary, problem string) {
	switch {
	case due:
		summary, problem = f.Wait(waiting)
		values["ready"] = types.BoolValue(problem == "")
	case f.Wait == nil && f.Settle != nil:
		f.Settle(waiting)
	default:
		return "", ""
	}
	f.Report()
	return summary, problem
}

// StayReady brings the attribute ready up to date at a refresh: it is null without a wait,
// and once the wait was met, it stays so.
func StayReady(values attribute.Values, met func() bool) {
	switch {
	case !values.IsSet("wait"):
		values["ready"] = types.BoolNull()
	case !values.Bool("ready"):
		values["ready"] = types.BoolValue(met())
	}
}
