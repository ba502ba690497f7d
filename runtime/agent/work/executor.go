package work

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// deniedError says that a work's executor may not do what the work asks.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

// executorName identifies an executor; nobody's is empty.
func executorName(e *workv1.ManifestWorkExecutor) string {
	if e == nil {
		return ""
	}
	if sa := e.Subject.ServiceAccount; sa != nil {
		return fmt.Sprintf("%s %s/%s", e.Subject.Type, sa.Namespace, sa.Name)
	}
	return string(e.Subject.Type) + " nobody"
}

// mayApply asks whether the service account that a work names as its executor
// may apply a manifest. Works without one are carried out with the agent's own
// rights.
func (o *objects) mayApply(ctx context.Context, executor *workv1.ManifestWorkExecutor, m *manifest) error {
	if executor == nil {
		return nil
	}
	if executor.Subject.Type != workv1.ExecutorSubjectTypeServiceAccount {
		return &deniedError{"only support ServiceAccount type for the executor"}
	}
	sa := executor.Subject.ServiceAccount
	if sa == nil {
		return &deniedError{"the executor service account is nil"}
	}
	user := "system:serviceaccount:" + sa.Namespace + ":" + sa.Name
	groups := []string{"system:serviceaccounts", "system:authenticated", "system:serviceaccounts:" + sa.Namespace}
	verbs := []string{"create", "update", "patch", "get"}
	if m.owned {
		verbs = append(verbs, "delete")
	}
	denied := &deniedError{fmt.Sprintf("not allowed to apply the resource %s %s, %s %s, will try again in %s", m.meta.Group, m.meta.Resource, m.meta.Namespace, m.meta.Name, "1m0s")}
	for _, verb := range verbs {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: m.gvr.Group, Version: m.gvr.Version, Resource: m.gvr.Resource, Namespace: m.meta.Namespace, Name: m.meta.Name,
			},
		}}
		may, err := o.grants.allowed(grant{user, verb, m.gvr.Group, m.gvr.Version, m.gvr.Resource, m.meta.Namespace, m.meta.Name}, func() (bool, error) {
			err := o.reviews.Create(ctx, review)
			return review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("ask whether %s may %s the %s %s: %w", user, verb, m.meta.Resource, m.meta.Name, err)
		}
		if !may {
			return denied
		}
	}
	if m.gvr.Group != rbacv1.GroupName {
		return nil
	}
	return o.mayGrant(ctx, user, groups, m)
}

// mayGrant tries, without doing it, whether the executor could create a role or
// binding: nobody may grant rights that they don't have.
func (o *objects) mayGrant(ctx context.Context, user string, groups []string, m *manifest) error {
	config := rest.CopyConfig(o.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	as := &objects{client: client}
	_, err = as.resource(m.gvr, m.meta.Namespace).Create(ctx, m.required, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err):
		return &deniedError{fmt.Sprintf("not allowed to apply the resource %s %s, %s %s, permission escalation, will try again in 1m0s", m.meta.Group, m.meta.Resource, m.meta.Namespace, m.meta.Name)}
	}
	return errors.Join(fmt.Errorf("try whether %s may create the %s %s", user, m.meta.Resource, m.meta.Name), err)
}
