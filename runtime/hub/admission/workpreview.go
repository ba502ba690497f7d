package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// maxPreviewed is how large the answer to a preview may be, in bytes.
const maxPreviewed = 512 << 10

// workPreviews checks WorkPreviews: their authors need the rights that the work itself
// would need, as the answer says what is in the cluster, as far as the work could.
type workPreviews struct {
	writes
	executors
	// limit is the greatest total size of the manifests, in bytes.
	limit int
}

// Validate checks what is previewed, and that its author may do it.
func (p workPreviews) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r := a.GetResource(); r.Group != muster.GroupName || r.Resource != "workpreviews" {
		return nil
	}
	now, before, err := objects[v1alpha1.WorkPreview](a)
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update {
		if !apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
			return forbidden(a, "the spec of a preview can't be changed: create another one")
		}
		return checkPreviewed(&now.Status)
	}
	if problems := validation.IsDNS1123Subdomain(now.Spec.WorkName); len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.workName: %q can't be the name of a work: %s",
			now.Spec.WorkName, strings.Join(problems, "; ")))
	}
	previewed := now.Spec.Work
	if previewed != nil {
		if err := workcheck.Manifests(previewed.Workload.Manifests, p.limit); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if err := checkOptions("spec.work.manifestConfigs", previewed.ManifestConfigs, nil); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if err := p.mayWrite(ctx, a, now.Spec.WorkName, previewed == nil); err != nil {
		return err
	}
	if previewed == nil {
		return nil
	}
	return p.check(ctx, a, "spec.work.executor", previewed.Executor)
}

// mayWrite asks whether the author may do to the work what is previewed: create it, or
// change the one that there is, or delete it.
func (p workPreviews) mayWrite(ctx context.Context, a admission.Attributes, name string, deletes bool) error {
	found, err := p.objects.Resource(workv1.GroupVersion.WithResource("manifestworks")).
		Namespace(a.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the work %s/%s: %w", a.GetNamespace(), name, err)
	}
	verbs, on := []string{"create"}, ""
	switch {
	case deletes:
		verbs, on = []string{"delete"}, name
	case err == nil:
		verbs, on = []string{"update", "patch"}, name
	}
	allowed := false
	for _, verb := range verbs {
		allowed = allowed || p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
			Verb: verb, APIGroup: work.GroupName, Resource: "manifestworks", Namespace: a.GetNamespace(), Name: on,
		})
	}
	if !allowed {
		return forbidden(
			a,
			"a preview needs the rights of the work: %s may not %s the ManifestWork %s in the namespace %s",
			a.GetUserInfo().GetName(),
			strings.Join(verbs, " or "),
			name,
			a.GetNamespace(),
		)
	}
	if found == nil || isHub(a.GetUserInfo()) {
		return nil
	}
	if cloud := found.GetAnnotations()[muster.LogicalCloudAnnotation]; cloud != "" {
		return forbidden(a, "the work %s is the hub's, for the LogicalCloud %s, and can't be previewed", name, cloud)
	}
	return nil
}

// checkPreviewed checks the size of an agent's answer.
func checkPreviewed(s *v1alpha1.WorkPreviewStatus) error {
	data, err := json.Marshal(s)
	if err != nil || len(data) > maxPreviewed {
		return apierrors.NewBadRequest(fmt.Sprintf("status has %d bytes, and may have %d", len(data), maxPreviewed))
	}
	return nil
}
