package admission

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// clusterImports checks ClusterImports. The hub carries them out with its own rights,
// so who writes one needs the rights to everything that is done.
type clusterImports struct {
	writes
	*server
	// enabled says that the hub carries imports out.
	enabled bool
	// defaultSet says that clusters without a set are in the default one.
	defaultSet bool
}

// Validate checks what an import says, and the rights of who says it.
func (p clusterImports) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch {
	case p.enabled && a.GetOperation() == admission.Create && concerns(a, cluster.GroupName, "managedclusters"):
		return p.checkNewCluster(ctx, a)
	case p.enabled && a.GetNamespace() == muster.ImportNamespace && concerns(a, "", "secrets"):
		return p.checkKubeconfig(ctx, a)
	case a.GetResource().Group != muster.GroupName || a.GetResource().Resource != "clusterimports":
		return nil
	case a.GetSubresource() != "":
		// What is there decides which cluster may have the name.
		if !isHub(a.GetUserInfo()) {
			return forbidden(a, "the status of an import is written by the hub only")
		}
		return nil
	}
	now, before, err := objects[v1alpha1.ClusterImport](a)
	if err != nil {
		return err
	}
	created := a.GetOperation() == admission.Create
	if !now.DeletionTimestamp.IsZero() || !created && apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil
	}
	kind := v1alpha1.GroupVersion.WithKind("ClusterImport").GroupKind()
	if problems := checkImport(&now, &before, created); len(problems) > 0 {
		return apierrors.NewInvalid(kind, now.Name, problems)
	}
	why := p.lacks(ctx, a, &now)
	if why == "" && (created || leadsElsewhere(now.Spec, before.Spec)) {
		if why, err = p.lacksCluster(ctx, a.GetUserInfo(), &now); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if why == "" && now.Spec.Rejoin != before.Spec.Rejoin {
		why = p.lacksRejoin(ctx, a.GetUserInfo(), now.Name)
	}
	if why != "" {
		return forbidden(a, "user %q %s", a.GetUserInfo().GetName(), why)
	}
	return nil
}

// lacks says which right the author of an import lacks.
func (p clusterImports) lacks(ctx context.Context, a admission.Attributes, imp *v1alpha1.ClusterImport) string {
	set := imp.Spec.ClusterSet
	if set == "" && p.defaultSet {
		set = cluster.DefaultSet
	}
	who := a.GetUserInfo()
	switch {
	case !p.may(ctx, who, authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: muster.ImportNamespace, Name: imp.Spec.KubeconfigSecret}):
		return fmt.Sprintf("cannot use the Secret %q: who imports a cluster needs the right to get its Secret in the namespace %s", imp.Spec.KubeconfigSecret, muster.ImportNamespace)
	case !p.may(ctx, who, authorizer.AttributesRecord{Verb: "create", APIGroup: cluster.GroupName, Resource: "managedclusters", Name: imp.Name}):
		return "cannot create the ManagedCluster that the import is for"
	case set != "" && !p.may(ctx, who, authorizer.AttributesRecord{Verb: "create", APIGroup: cluster.GroupName, Resource: "managedclustersets", Subresource: "join", Name: set}):
		return fmt.Sprintf("%s %q", cluster.RefusedSetMembership, set)
	case imp.Spec.Accept && !p.may(ctx, who, authorizer.AttributesRecord{Verb: "update", APIGroup: cluster.RegisterGroupName, Resource: "managedclusters", Subresource: "accept", Name: imp.Name}):
		return cluster.RefusedAcceptance
	}
	return ""
}

// leadsElsewhere reports whether a change may let another cluster in under the name, or
// lead users elsewhere.
func leadsElsewhere(now, before v1alpha1.ClusterImportSpec) bool {
	return now.KubeconfigSecret != before.KubeconfigSecret || now.ClusterUID != before.ClusterUID ||
		now.ClusterAuthority != before.ClusterAuthority || now.PublishServer && !before.PublishServer
}

// lacksCluster says which right the author of an import lacks to let a cluster in under
// a name that the hub has already.
func (p clusterImports) lacksCluster(ctx context.Context, who user.Info, imp *v1alpha1.ClusterImport) (string, error) {
	mc, err := p.cluster(ctx, imp.Name)
	if mc == nil || err != nil {
		return "", err
	}
	return p.lacksRightsTo(ctx, who, mc), nil
}

// cluster is a ManagedCluster; nil when the hub does not have it.
func (p clusterImports) cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	found, err := p.objects.Resource(clusterv1.GroupVersion.WithResource("managedclusters")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	mc := &clusterv1.ManagedCluster{}
	if err == nil {
		err = decode(found, mc)
	}
	if err != nil {
		return nil, fmt.Errorf("read the ManagedCluster %s: %w", name, err)
	}
	return mc, nil
}

// lacksRightsTo says which right to a ManagedCluster somebody lacks who decides which
// cluster it is.
func (p clusterImports) lacksRightsTo(ctx context.Context, who user.Info, mc *clusterv1.ManagedCluster) string {
	switch {
	case !p.may(ctx, who, authorizer.AttributesRecord{Verb: "update", APIGroup: cluster.GroupName, Resource: "managedclusters", Name: mc.Name}):
		return fmt.Sprintf("cannot update the ManagedCluster %q, which exists already: an import lets a cluster in under its name", mc.Name)
	case mc.Spec.AcceptsClient() && !p.may(ctx, who, authorizer.AttributesRecord{Verb: "update", APIGroup: cluster.RegisterGroupName, Resource: "managedclusters", Subresource: "accept", Name: mc.Name}):
		return cluster.RefusedAcceptance + ": the ManagedCluster is accepted already, and an import lets a cluster in under its name"
	}
	return ""
}

// lacksRejoin says which right somebody lacks who has a cluster join again. It is what
// "muster rejoin" needs: the right to make the token.
func (p clusterImports) lacksRejoin(ctx context.Context, who user.Info, name string) string {
	if p.may(ctx, who, authorizer.AttributesRecord{Verb: "create", Resource: "secrets", Namespace: metav1.NamespaceSystem}) {
		return ""
	}
	return fmt.Sprintf("cannot create Secrets in the namespace %s, as who lets the cluster %q join again has to: spec.rejoin has the hub make a token for that",
		metav1.NamespaceSystem, name)
}

// checkKubeconfig checks who writes a Secret that imports name. The hub follows the
// kubeconfig in it, so for a cluster that has joined it takes the rights of who writes
// the import. A cluster that has not joined is whose kubeconfig is handed in.
func (p clusterImports) checkKubeconfig(ctx context.Context, a admission.Attributes) error {
	secret, err := meta.Accessor(a.GetObject())
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the Secret cannot be read: %v", err))
	}
	if isHub(a.GetUserInfo()) {
		return nil
	}
	imports, err := p.objects.Resource(v1alpha1.GroupVersion.WithResource("clusterimports")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("read which ClusterImports name the Secret %s: %w", secret.GetName(), err))
	}
	for i := range imports.Items {
		var imp v1alpha1.ClusterImport
		if err := decode(&imports.Items[i], &imp); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("read the ClusterImport %s: %w", imports.Items[i].GetName(), err))
		}
		if imp.Spec.KubeconfigSecret != secret.GetName() {
			continue
		}
		why, err := p.lacksForKubeconfig(ctx, a.GetUserInfo(), &imp)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if why != "" {
			return forbidden(a, "user %q hands in a kubeconfig for the ClusterImport %q, and %s", a.GetUserInfo().GetName(), imp.Name, why)
		}
	}
	return nil
}

// lacksForKubeconfig says which right somebody lacks who hands in the kubeconfig of an
// import.
func (p clusterImports) lacksForKubeconfig(ctx context.Context, who user.Info, imp *v1alpha1.ClusterImport) (string, error) {
	mc, err := p.cluster(ctx, imp.Name)
	if mc == nil || err != nil || !mc.HasAgent() {
		return "", err
	}
	why := p.lacksRightsTo(ctx, who, mc)
	if why == "" && imp.Spec.Rejoin > imp.Status.Rejoined {
		why = p.lacksRejoin(ctx, who, imp.Name)
	}
	return why, nil
}

// checkNewCluster refuses a ManagedCluster whose name somebody else imports: the import
// would let its own cluster in under the name.
func (p clusterImports) checkNewCluster(ctx context.Context, a admission.Attributes) error {
	mc, _, err := objects[clusterv1.ManagedCluster](a)
	if err != nil {
		return err
	}
	name := mc.Name // a.GetName has none that the server generates
	_, err = p.objects.Resource(v1alpha1.GroupVersion.WithResource("clusterimports")).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("read the ClusterImport %s: %w", name, err))
	case p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{Verb: "update", APIGroup: muster.GroupName, Resource: "clusterimports", Name: name}):
		return nil
	}
	return forbidden(a, "user %q cannot update the ClusterImport %q, which lets the cluster of its kubeconfig in under this name: choose another name, or have the import deleted",
		a.GetUserInfo().GetName(), name)
}

// checkImport checks what does not depend on the user.
func checkImport(now, before *v1alpha1.ClusterImport, created bool) field.ErrorList {
	var problems field.ErrorList
	spec := field.NewPath("spec")
	if created {
		name := field.NewPath("metadata", "name")
		for _, why := range validation.IsDNS1123Label(now.Name) {
			problems = append(problems, field.Invalid(name, now.Name, "it is the name of the ManagedCluster: "+why))
		}
		if err := cluster.NewName(now.Name); err != nil {
			problems = append(problems, field.Invalid(name, now.Name, err.Error()))
		}
	} else if now.Spec.Agent.Namespace != before.Spec.Agent.Namespace {
		problems = append(problems, field.Invalid(spec.Child("agent", "namespace"), now.Spec.Agent.Namespace,
			"it can't be changed, as the agent would stay in the namespace from before: delete the import and that namespace, and create the import again"))
	}
	for _, why := range validation.IsDNS1123Subdomain(now.Spec.KubeconfigSecret) {
		problems = append(problems, field.Invalid(spec.Child("kubeconfigSecret"), now.Spec.KubeconfigSecret,
			"it is the name of a Secret in the namespace "+muster.ImportNamespace+", without the namespace: "+why))
	}
	problems = append(problems, klusterlet.Validate(now.Spec.Agent, spec.Child("agent"))...)
	problems = append(problems, metav1validation.ValidateLabels(now.Spec.Labels, spec.Child("labels"))...)
	for _, key := range []string{cluster.ClusterSetLabel, cluster.TokenLabel} {
		if value, ok := now.Spec.Labels[key]; ok {
			problems = append(problems, field.Invalid(spec.Child("labels").Key(key), value, "it can't be set as a label; use spec.clusterSet for the set"))
		}
	}
	for _, why := range validation.IsValidLabelValue(now.Spec.ClusterSet) {
		problems = append(problems, field.Invalid(spec.Child("clusterSet"), now.Spec.ClusterSet, why))
	}
	if is := now.Spec.ClusterAuthority; is != "" {
		if err := kubeconfig.CheckAuthority(is); err != nil {
			problems = append(problems, field.Invalid(spec.Child("clusterAuthority"), is, err.Error()))
		}
	}
	return append(problems, checkEndpoint(now.Spec.Endpoint, spec.Child("endpoint"))...)
}

func checkEndpoint(e v1alpha1.HubEndpoint, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if u, err := url.Parse(e.Server); e.Server != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		problems = append(problems, field.Invalid(at.Child("server"), e.Server, "it has to be the hub's URL, such as https://hub.example.com:6443"))
	}
	if u, err := url.Parse(e.ProxyURL); e.ProxyURL != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)) {
		problems = append(problems, field.Invalid(at.Child("proxyURL"), "", "it has to be the URL of a proxy, such as http://proxy.example.com:3128"))
	}
	switch {
	case len(e.CABundle) > 0 && e.Trust == v1alpha1.TrustSystem:
		problems = append(problems, field.Invalid(at.Child("caBundle"), "", "with trust System no bundle is used; remove it, or set trust to Bundle"))
	case len(e.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(e.CABundle):
		problems = append(problems, field.Invalid(at.Child("caBundle"), "", "it has no certificate; it has to be PEM"))
	}
	return problems
}
