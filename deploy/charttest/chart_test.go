// Package charttest renders deploy/helm/agentd by Helm's own library and checks the objects by the types of
// Kubernetes. It is a separate module, so that agentd does not depend on these libraries.
package charttest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const chart = "../helm/agentd"

// release is a chart, as it is installed.
type release struct {
	name, version, appVersion string // "": sim, and the chart's own
	values                    string
}

// render is `helm template` with the notes.
func (r release) render() (objects []string, notes string, err error) {
	c, err := loader.LoadDir(chart)
	if err != nil {
		return nil, "", err
	}
	if r.version != "" {
		c.Metadata.Version = r.version
	}
	if r.appVersion != "" {
		c.Metadata.AppVersion = r.appVersion
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(r.values), &given); err != nil {
		return nil, "", err
	}
	if r.name == "" {
		r.name = "sim"
	}
	values, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: r.name, Namespace: "robots", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Render(c, values)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(path, "NOTES.txt") {
			notes = files[path]
			continue
		}
		for object := range strings.SplitSeq("\n"+files[path], "\n---") {
			if strings.TrimSpace(object) != "" {
				objects = append(objects, object)
			}
		}
	}
	return objects, notes, err
}

// objects are what a release consists of, checked.
type objects struct {
	deployment apps.Deployment
	service    core.Service
	monitor    *monitoring.ServiceMonitor
	kinds      []string
}

// read decodes strictly and checks what Kubernetes would.
func read(texts []string) (o objects, err error) {
	var faults []error
	for _, text := range texts {
		var head meta.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return o, fmt.Errorf("%w in %s", err, text)
		}
		var into meta.Object
		nameOf := apivalidation.NameIsDNSSubdomain
		switch head.Kind {
		case "Deployment":
			into = &o.deployment
		case "Service":
			into, nameOf = &o.service, apivalidation.NameIsDNS1035Label
		case "ServiceMonitor":
			o.monitor = &monitoring.ServiceMonitor{}
			into = o.monitor
		case "ServiceAccount":
			into = &core.ServiceAccount{}
		case "ConfigMap":
			into = &core.ConfigMap{}
		case "PodDisruptionBudget":
			into = &policy.PodDisruptionBudget{}
		case "HorizontalPodAutoscaler":
			into = &autoscaling.HorizontalPodAutoscaler{}
		default:
			return o, fmt.Errorf("an object of the kind %q", head.Kind)
		}
		o.kinds = append(o.kinds, head.Kind)
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", head.Kind, err))
		}
		of := field.NewPath(head.Kind, "metadata")
		into.SetNamespace("robots")
		errs := apivalidation.ValidateObjectMetaAccessor(into, true, nameOf, of)
		faults = append(faults, errs.ToAggregate())
	}
	faults = append(faults, checkPod(o.deployment.Spec))
	return o, errors.Join(faults...)
}

// checkPod checks the names in a deployment.
func checkPod(spec apps.DeploymentSpec) error {
	pod, of := spec.Template, field.NewPath("pod")
	faults := metavalidation.ValidateLabels(pod.Labels, of.Child("labels"))
	faults = append(faults, apivalidation.ValidateAnnotations(pod.Annotations, of.Child("annotations"))...)
	invalid := func(at, value string, problems []string) {
		for _, problem := range problems {
			faults = append(faults, field.Invalid(of.Child(at), value, problem))
		}
	}
	for name, value := range spec.Selector.MatchLabels {
		if pod.Labels[name] != value {
			invalid("selector", name, []string{"the pod has another label"})
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		invalid("volume", v.Name, validation.IsDNS1123Label(v.Name))
		if volumes[v.Name] {
			invalid("volume", v.Name, []string{"twice"})
		}
		volumes[v.Name] = true
	}
	container := pod.Spec.Containers[0]
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] || strings.Contains(m.MountPath, ":") {
			invalid("mount", m.Name, []string{"no such volume, or a colon in its path"})
		}
	}
	for _, e := range container.Env {
		invalid("env", e.Name, validation.IsEnvVarName(e.Name))
	}
	if _, err := reference.Parse(container.Image); err != nil {
		invalid("image", container.Image, []string{err.Error()})
	}
	return faults.ToAggregate()
}

// good renders a release whose objects are valid.
func good(t *testing.T, r release) (objects, string) {
	t.Helper()
	texts, notes, err := r.render()
	if err != nil {
		t.Fatal(err)
	}
	o, err := read(texts)
	if err != nil {
		t.Fatal(err)
	}
	return o, notes
}

func file(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func goodValues(t *testing.T) []string {
	t.Helper()
	ours, _ := filepath.Glob("testdata/good/*.yaml")
	variants, _ := filepath.Glob(chart + "/values*.yaml")
	if len(ours) < 9 || len(variants) < 3 {
		t.Fatalf("%d files of values, and %d of the chart", len(ours), len(variants))
	}
	return slices.Concat(ours, variants)
}

func TestObjectsOfEachValuesFileAreValid(t *testing.T) {
	for _, path := range goodValues(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			o, _ := good(t, release{values: file(t, path)})
			for _, kind := range []string{"ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"} {
				if !slices.Contains(o.kinds, kind) {
					t.Errorf("no %s in %q", kind, o.kinds)
				}
			}
		})
	}
}

func TestWrongValuesAreRefusedByName(t *testing.T) {
	paths, _ := filepath.Glob("testdata/refused/*.yaml")
	if len(paths) < 12 {
		t.Fatalf("%d files", len(paths))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := file(t, path)
			want := regexp.MustCompile(`^# error: (.*)\n`).FindStringSubmatch(text)[1]
			if objects, _, err := (release{values: text}).render(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d objects, %v; want an error with %q", len(objects), err, want)
			}
		})
	}
}

func TestNamesAndVersionsOfAnyReleaseAreValid(t *testing.T) {
	long := strings.Repeat("a", 53)
	for _, r := range []release{
		{name: "robots.example"},
		{name: "2027-simulation"},
		{name: long},
		{name: "9" + long[1:]},
		{name: "0.1"},
		{name: "a.b-c.d"},
		{version: "0.1.0+3f2a1bc9d8e7"},
		{version: "0.1.0-rc.1+build.of." + strings.Repeat("x", 60)},
		{version: "0.1.0-" + strings.Repeat("a.", 28) + "b"},
		{appVersion: "0.1.0+cuda"},
		{appVersion: "0.1.0-" + strings.Repeat("b", 80)},
	} {
		t.Run(fmt.Sprint(r.name, " ", r.version, " ", r.appVersion), func(t *testing.T) {
			o, notes := good(t, r)
			if !strings.Contains(notes, o.service.Name+".robots.svc") {
				t.Errorf("the notes name another service than %s: %s", o.service.Name, notes)
			}
		})
	}
}

func TestProbesServiceAndMonitorFollowTLS(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/good/digest.yaml":             "http",
		"testdata/good/tokens-and-monitor.yaml": "http",
		"testdata/good/tls.yaml":                "https",
		"testdata/good/tls-by-variable.yaml":    "https",
		"testdata/good/tls-and-monitor.yaml":    "https",
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			o, notes := good(t, release{values: file(t, path)})
			c := o.deployment.Spec.Template.Spec.Containers[0]
			for _, probe := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if string(probe.HTTPGet.Scheme) != strings.ToUpper(want) {
					t.Errorf("a probe by %q, want %s", probe.HTTPGet.Scheme, want)
				}
			}
			if o.monitor != nil && o.monitor.Spec.Endpoints[0].Scheme.String() != want {
				t.Errorf("the monitor scrapes by %q", *o.monitor.Spec.Endpoints[0].Scheme)
			}
			if p := o.service.Spec.Ports[0].AppProtocol; *p != want || !strings.Contains(notes, "at "+want+"://") || !strings.Contains(notes, want+"://localhost") {
				t.Errorf("the service speaks %s; notes: %s", *p, notes)
			}
		})
	}
}

func TestMonitorHasItsCredential(t *testing.T) {
	o, notes := good(t, release{values: file(t, "testdata/good/tokens-and-monitor.yaml")})
	a := o.monitor.Spec.Endpoints[0].Authorization
	if a == nil || a.Credentials.Name != "agentd-tokens" || a.Credentials.Key != "scraper" {
		t.Errorf("authorization %v", a)
	}
	if !strings.Contains(notes, "Requests need a token") {
		t.Error(notes)
	}
	if _, notes := good(t, release{}); !strings.Contains(notes, "It asks for no token") {
		t.Error(notes)
	}
}

func TestContainerHasItsVariablesAndImage(t *testing.T) {
	o, _ := good(t, release{values: file(t, "testdata/good/variables.yaml")})
	c := o.deployment.Spec.Template.Spec.Containers[0]
	if len(c.Env) != 4 || c.Env[1].ValueFrom.SecretKeyRef.Key != "url" || len(c.EnvFrom) != 2 || c.EnvFrom[1].Prefix != "OTEL_" {
		t.Errorf("%v, %v", c.Env, c.EnvFrom)
	}
	for values, want := range map[string]string{
		"":                                   "agentd:0.1.0-cuda",
		file(t, "testdata/good/digest.yaml"): "registry.example.org:5000/robots/agentd@sha256:" + strings.Repeat("0", 63) + "1",
		"image: {tag: v2, digest: 'sha256:" + strings.Repeat("a", 64) + "'}": "agentd:v2@sha256:" + strings.Repeat("a", 64),
	} {
		o, _ := good(t, release{appVersion: "0.1.0+cuda", values: values})
		if got := o.deployment.Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("image %s, want %s", got, want)
		}
	}
}
