package spec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func inBytes(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// processors rounds up to thousandths, the finest unit of Kubernetes.
func processors(nano int64) resource.Quantity {
	return *resource.NewMilliQuantity((nano+999_999)/1_000_000, resource.DecimalSI)
}

// resources returns the limits and the requests of a container. A limit of 0 means none, and a request is never above
// its limit.
func resources(memory, memoryRequest, cpus, cpusRequest int64) (limits, requests corev1.ResourceList) {
	limits, requests = corev1.ResourceList{}, corev1.ResourceList{}
	if memory > 0 {
		limits[corev1.ResourceMemory] = inBytes(memory)
		memoryRequest = min(memory, memoryRequest)
	}
	if cpus > 0 {
		limits[corev1.ResourceCPU] = processors(cpus)
		cpusRequest = min(cpus, cpusRequest)
	}
	requests[corev1.ResourceMemory] = inBytes(memoryRequest)
	requests[corev1.ResourceCPU] = processors(cpusRequest)
	return limits, requests
}

// LimitCPU gives the container of a storage job's Pod that CPU limit, and lowers its request to the limit if necessary.
func LimitCPU(p *corev1.PodSpec, limit resource.Quantity) {
	r := &p.Containers[0].Resources
	r.Limits[corev1.ResourceCPU] = limit
	if request := r.Requests[corev1.ResourceCPU]; limit.Cmp(request) < 0 {
		r.Requests[corev1.ResourceCPU] = limit
	}
}
