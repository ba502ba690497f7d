package applier

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// NewDryRun makes an Applier that changes nothing: what it writes are dry runs, which the
// API server and the cluster's admission check like real ones. Apply then returns the
// object as it would be. Owners are left out: they are the agent's own affair.
func NewDryRun(client dynamic.Interface, rights rightsToReplace, clock clock.PassiveClock) *Applier {
	o := New(client, rights, noVersions{}, clock, func() {})
	o.dry = true
	return o
}

// WouldRemove says what the end of a work's hold on an object would come to. owner is the
// UID of the AppliedManifestWork. For an object to delete, the error is why the cluster
// would refuse that.
func (o *Applier) WouldRemove(
	ctx context.Context, r workv1.AppliedManifestResourceMeta, owner types.UID,
) (Removal, error) {
	removal, live, err := o.removal(ctx, r, owner)
	if err == nil && removal == RemovesObject && o.dry {
		err = o.delete(ctx, r, live)
	}
	return removal, err
}

// noVersions knows no resource versions.
type noVersions struct{}

func (noVersions) Version(schema.GroupVersionResource, manifest.Key) (string, bool) { return "", false }

// dryRun makes dry runs of all writes.
type dryRun struct{ dynamic.ResourceInterface }

var dry = []string{metav1.DryRunAll}

func (d dryRun) Create(
	ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	options.DryRun = dry
	return d.ResourceInterface.Create(ctx, o, options, subresources...)
}

func (d dryRun) Update(
	ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	options.DryRun = dry
	return d.ResourceInterface.Update(ctx, o, options, subresources...)
}

func (d dryRun) Patch(
	ctx context.Context, name string, how types.PatchType, data []byte, options metav1.PatchOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	options.DryRun = dry
	return d.ResourceInterface.Patch(ctx, name, how, data, options, subresources...)
}

func (d dryRun) Delete(
	ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string,
) error {
	options.DryRun = dry
	return d.ResourceInterface.Delete(ctx, name, options, subresources...)
}

// isConflictWith reports whether an apply conflicts with one manager of fields, and no
// other.
func isConflictWith(err error, manager string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	for _, c := range causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict || !strings.HasPrefix(c.Message,
			`conflict with "`+manager+`"`) {
			return false
		}
	}
	return len(causes) > 0
}
