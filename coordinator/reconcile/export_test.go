package reconcile

// ProgressMin is progressMin.
const ProgressMin = progressMin
