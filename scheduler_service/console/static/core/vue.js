// Vue, which the classic script before this one has put into the global `Vue`; no other module names it.

export const {
  computed,
  createApp,
  h,
  nextTick,
  onBeforeUnmount,
  onMounted,
  onUnmounted,
  reactive,
  readonly,
  ref,
  shallowReactive,
  shallowRef,
  toRaw,
  watch,
  watchEffect,
} = globalThis.Vue;
