package work

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// deniedError says that a work's executor may not do what the work asks.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

func isDenied(err error) bool {
	var no *deniedError
	return errors.As(err, &no)
}

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

// account is a user of the managed cluster.
type account struct {
	name   string
	groups []string
}

// accountOf is the user that an executor stands for; nil is nobody, who is not asked
// about: works without an executor are carried out with the agent's own rights.
func accountOf(executor *workv1.ManifestWorkExecutor) (*account, error) {
	if executor == nil {
		return nil, nil
	}
	name, err := executor.UserName()
	if err != nil {
		return nil, &deniedError{err.Error()}
	}
	return &account{name, []string{"system:serviceaccounts", "system:authenticated", "system:serviceaccounts:" + executor.Subject.ServiceAccount.Namespace}}, nil
}

// may asks whether a user may do something with an object.
func (o *objects) may(ctx context.Context, user *account, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.name, Groups: user.groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: namespace, Name: name,
		},
	}}
	may, err := o.grants.allowed(grant{user.name, verb, gvr.Group, gvr.Version, gvr.Resource, namespace, name}, func() (bool, error) {
		err := o.reviews.Create(ctx, review)
		return review.Status.Allowed && !review.Status.Denied, err
	})
	if err != nil {
		return false, fmt.Errorf("ask whether %s may %s the %s %s: %w", user.name, verb, gvr.Resource, qualified(namespace, name), err)
	}
	return may, nil
}

// mayApply asks whether the service account that a work names as its executor
// may apply a manifest, which is also to see what becomes of the object.
func (o *objects) mayApply(ctx context.Context, m *manifest) error {
	if m.strategy.Type == workv1.UpdateStrategyTypeReadOnly {
		return o.mayRead(ctx, m.executor, m.gvr, m.meta.Namespace, m.meta.Name)
	}
	user, err := accountOf(m.executor)
	if user == nil {
		return err
	}
	verbs := []string{"create", "update", "patch", "get"}
	if m.owned {
		verbs = append(verbs, "delete")
	}
	for _, verb := range verbs {
		if err := o.mayDo(ctx, user, verb, m); err != nil {
			return err
		}
	}
	if m.gvr.Group != rbacv1.GroupName {
		return nil
	}
	return o.mayGrant(ctx, user, m)
}

func (o *objects) mayDo(ctx context.Context, user *account, verb string, m *manifest) error {
	may, err := o.may(ctx, user, verb, m.gvr, m.meta.Namespace, m.meta.Name)
	if err != nil || may {
		return err
	}
	return &deniedError{fmt.Sprintf("not allowed to apply the resource %s %s, %s %s, will try again in 1m0s", m.meta.Group, m.meta.Resource, m.meta.Namespace, m.meta.Name)}
}

// mayReplace asks whether a work's executor may have an object deleted and made
// again, which is more than to apply it.
func (o *objects) mayReplace(ctx context.Context, m *manifest) error {
	user, err := accountOf(m.executor)
	if user == nil {
		return err
	}
	return o.mayDo(ctx, user, "delete", m)
}

// mayRead asks whether a work may be told of an object: whether its executor may
// get it. The agent's own rights to read reach further than any executor's.
func (o *objects) mayRead(ctx context.Context, executor *workv1.ManifestWorkExecutor, gvr schema.GroupVersionResource, namespace, name string) error {
	user, err := accountOf(executor)
	if user == nil {
		return err
	}
	may, err := o.may(ctx, user, "get", gvr, namespace, name)
	if err != nil || may {
		return err
	}
	return &deniedError{fmt.Sprintf("the executor %s may not get the %s %s, will try again in 1m0s", user.name, gvr.Resource, qualified(namespace, name))}
}

// mayGrant tries, without doing it, whether the executor could create a role or
// binding: nobody may grant rights that they don't have.
func (o *objects) mayGrant(ctx context.Context, user *account, m *manifest) error {
	config := rest.CopyConfig(o.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user.name, Groups: user.groups}
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
	return errors.Join(fmt.Errorf("try whether %s may create the %s %s", user.name, m.meta.Resource, m.meta.Name), err)
}
