package devcluster

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
)

func TestAgentContainer(t *testing.T) {
	agent := func(command, args []string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "klusterlet-agent"}
			p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = command, args
		})
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want []string // nil for none
	}{
		{"command and arguments", agent([]string{"/muster"}, []string{"agent", "--cluster-name=c1"}), []string{"--cluster-name=c1"}},
		{"all in the command", agent([]string{"/usr/bin/muster", "agent", "-v=2"}, nil), []string{"-v=2"}},
		{"the image's own command", agent(nil, []string{"agent", "-v=2"}), []string{"-v=2"}},
		{"another command of muster", agent([]string{"/muster"}, []string{"hub"}), nil},
		{"another program", agent([]string{"/registration"}, []string{"agent"}), nil},
		{"nothing to run", agent(nil, nil), nil},
		{"without the label", pod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/muster", "agent"} }), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, args, ok := agentContainer(tc.pod)
			if ok != (tc.want != nil) || !slices.Equal(args, tc.want) {
				t.Errorf("got %q, %t, want %q", args, ok, tc.want)
			}
			if ok && c.Name != "main" {
				t.Errorf("container %q", c.Name)
			}
		})
	}
}

func TestKlusterletsPodIsAnAgentsPod(t *testing.T) {
	for _, o := range klusterlet.Render(klusterlet.Options{ClusterName: "c1"}) {
		if d, ok := o.(*appsv1.Deployment); ok {
			p := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways // the API server's default
			c, args, ok := agentContainer(p)
			if !ok {
				t.Fatal("not seen as one")
			}
			got, err := hostPath(flagValue(args, "bootstrap-kubeconfig"), c.VolumeMounts, mountedSecrets(p, c), "/data")
			if want := "/data/bootstrap/kubeconfig"; err != nil || got != want {
				t.Errorf("bootstrap kubeconfig %q, %v, want %q", got, err, want)
			}
			return
		}
	}
	t.Fatal("no deployment")
}

func TestAPodSeesTheFilesOfItsSecretsAndNoOthers(t *testing.T) {
	mounts := []corev1.VolumeMount{
		{Name: "spoke", MountPath: "/spoke"},
		{Name: "boot", MountPath: "/spoke/bootstrap/"},
		{Name: "one", MountPath: "/one-file", SubPath: "key"},
		{Name: "out", MountPath: "/out", SubPath: "../../.."},
		{Name: "host", MountPath: "/host"},
		{Name: "odd", MountPath: "odd/../strange"},
	}
	var volumes []secretVolume
	for _, name := range []string{"spoke", "boot", "one", "out", "odd"} {
		volumes = append(volumes, secretVolume{name: name})
	}
	for given, want := range map[string]string{
		"/spoke/bootstrap/kubeconfig":  "/dir/boot/kubeconfig",
		"spoke/bootstrap/kubeconfig":   "/dir/boot/kubeconfig", // a container begins at its root
		"/spoke/bootstrap":             "/dir/boot",
		"//spoke/./bootstrap/../other": "/dir/spoke/other",
		"/one-file":                    "/dir/one/key",
		"/strange/x":                   "/dir/odd/x",
		"/../spoke/x":                  "/dir/spoke/x",
		"/spoke-not/x":                 "",
		"/etc/passwd":                  "",
		"/":                            "",
		"":                             "",
		"/spoke/../etc/passwd":         "",
		"/spoke/bootstrap/../../../../etc/passwd": "",
		"/host/etc/passwd":                        "",
		"/out/etc/passwd":                         "",
		"../../../etc/passwd":                     "",
		"~/.kube/config":                          "",
		"/proc/self/environ":                      "",
		"/dir/boot/kubeconfig":                    "", // where it is on this machine
	} {
		if got, err := hostPath(given, mounts, volumes, "/dir"); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", given, got, err, want)
		}
	}
}

func TestFilesOfASecretVolume(t *testing.T) {
	data := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	item := func(key, path string) corev1.KeyToPath { return corev1.KeyToPath{Key: key, Path: path} }
	for _, tc := range []struct {
		name    string
		v       secretVolume
		want    []string
		missing string
	}{
		{"all keys", secretVolume{}, []string{"a", "b"}, ""},
		{"chosen ones", secretVolume{items: []corev1.KeyToPath{item("b", "x/y")}}, []string{"x/y"}, ""},
		{"one that is not there", secretVolume{items: []corev1.KeyToPath{item("c", "c")}}, nil, "c"},
		{"one that need not be", secretVolume{optional: true, items: []corev1.KeyToPath{item("c", "c"), item("a", "a")}}, []string{"a"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files, missing := tc.v.files(data)
			if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, tc.want) || missing != tc.missing {
				t.Errorf("got %q, missing %q, want %q, %q", got, missing, tc.want, tc.missing)
			}
		})
	}
}

func TestFolderIsMadeToHoldTheFilesAndNoOthers(t *testing.T) {
	dir := t.TempDir() + "/new"
	for _, files := range []map[string][]byte{
		{"a": []byte("1"), "b": []byte("2")},
		{"b": []byte("3"), "c": []byte("4")},
		{},
	} {
		if err := writeFolder(dir, files); err != nil {
			t.Fatal(err)
		}
		got := readFolder(t, dir)
		if len(got) != len(files) {
			t.Errorf("got %v, want %v", got, files)
		}
		for name, content := range files {
			if got[name] != string(content) {
				t.Errorf("%s: got %q, want %q", name, got[name], content)
			}
		}
	}
}
