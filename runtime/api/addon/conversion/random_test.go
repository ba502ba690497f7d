package conversion_test

import (
	"math/rand"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// random makes objects that a server may hold: any field set or not, within what
// the definitions allow.
type random struct{ *rand.Rand }

func (r random) fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *metav1.TypeMeta, *metav1.ObjectMeta:
		return
	case *metav1.Time:
		*x = metav1.NewTime(time.Unix(int64(r.Intn(1<<30)), 0).UTC())
		return
	case *intstr.IntOrString:
		*x = intstr.FromInt32(int32(r.Intn(100)))
		return
	case *v1alpha1.ConfigReferent:
		x.Name, x.Namespace = "config-"+r.word(), r.maybe()
		return
	case *v1alpha1.RegistrationConfig:
		x.SignerName = r.one(addon.KubeClientSigner, "example.com/"+r.word())
		r.fill(reflect.ValueOf(&x.Subject).Elem())
		return
	case *v1beta1.RegistrationConfig:
		if r.Intn(2) == 0 {
			*x = v1beta1.RegistrationConfig{Type: v1beta1.RegistrationTypeKubeClient, KubeClient: &v1beta1.KubeClientConfig{}}
			r.fill(reflect.ValueOf(&x.KubeClient.Subject).Elem())
			return
		}
		*x = v1beta1.RegistrationConfig{Type: v1beta1.RegistrationTypeCustomSigner, CustomSigner: &v1beta1.CustomSignerConfig{SignerName: "example.com/" + r.word()}}
		r.fill(reflect.ValueOf(&x.CustomSigner.Subject).Elem())
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i))
		}
	case reflect.Pointer:
		if r.Intn(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem())
		}
	case reflect.Slice:
		for range r.Intn(4) {
			item := reflect.New(v.Type().Elem()).Elem()
			r.fill(item)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		if r.Intn(2) == 0 {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(r.word()).Convert(v.Type().Key()), reflect.ValueOf(r.word()).Convert(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString(r.maybe())
	case reflect.Bool:
		v.SetBool(r.Intn(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Intn(100)))
	}
}

func (r random) word() string { return string(rune('a' + r.Intn(26))) }

func (r random) maybe() string { return r.one("", r.word()) }

func (r random) one(words ...string) string { return words[r.Intn(len(words))] }

func (r random) metadata() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: "search", Namespace: "cluster1", UID: "uid", ResourceVersion: "7", Generation: 3}
	r.fill(reflect.ValueOf(&m.Labels).Elem())
	r.fill(reflect.ValueOf(&m.Annotations).Elem())
	r.fill(reflect.ValueOf(&m.Finalizers).Elem())
	return m
}

func (r random) managedV1alpha1() *v1alpha1.ManagedClusterAddOn {
	o := &v1alpha1.ManagedClusterAddOn{ObjectMeta: r.metadata(), TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ManagedClusterAddOn"}}
	r.fill(reflect.ValueOf(&o.Spec).Elem())
	r.fill(reflect.ValueOf(&o.Status).Elem())
	return o
}

// managedV1beta1 gives all registrations for the hub's API one driver, as that is
// what the stored version has room for.
func (r random) managedV1beta1() *v1beta1.ManagedClusterAddOn {
	o := &v1beta1.ManagedClusterAddOn{ObjectMeta: r.metadata(), TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn"}}
	r.fill(reflect.ValueOf(&o.Spec).Elem())
	r.fill(reflect.ValueOf(&o.Status).Elem())
	driver := r.one("", "csr", "token")
	for i := range o.Status.Registrations {
		if k := o.Status.Registrations[i].KubeClient; k != nil {
			k.Driver = driver
		}
	}
	if r.Intn(2) == 0 {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, addon.InstallNamespaceAnnotation, "ns-"+r.word())
	}
	return o
}

func (r random) definitionV1alpha1() *v1alpha1.ClusterManagementAddOn {
	o := &v1alpha1.ClusterManagementAddOn{ObjectMeta: r.metadata(), TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterManagementAddOn"}}
	r.fill(reflect.ValueOf(&o.Spec).Elem())
	r.fill(reflect.ValueOf(&o.Status).Elem())
	return o
}

// definitionV1beta1 has no namespace where it has no default.
func (r random) definitionV1beta1() *v1beta1.ClusterManagementAddOn {
	o := &v1beta1.ClusterManagementAddOn{ObjectMeta: r.metadata(), TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "ClusterManagementAddOn"}}
	r.fill(reflect.ValueOf(&o.Spec).Elem())
	r.fill(reflect.ValueOf(&o.Status).Elem())
	for i := range o.Spec.DefaultConfigs {
		if r.Intn(3) == 0 {
			o.Spec.DefaultConfigs[i].ConfigReferent = v1beta1.ConfigReferent{Name: addon.ReservedNoDefault}
		}
	}
	return o
}
